// What chat and completions replies share: choices with usage, finish and timings, as chunks or as
// one body. The two endpoints differ in how a delta, an end and a whole choice are written; they
// fill in those members.
#pragma once
#include <string>
#include <vector>

#include "net/api/reply_encoder.hpp"

namespace troupe::net {

class choices_encoder : public reply_encoder {
 public:
  /// `chunk_object`, `whole_object`: the values of "object" in a stream and in one body.
  choices_encoder(const api_request&, reply_meta, const char* chunk_object,
                  const char* whole_object);

  std::string text(std::size_t choice, const core::generation_delta&) override;
  std::string end(std::size_t choice, const core::generation_end&) override;
  std::string close() override;
  std::string fail(const api_error&) override;
  void collect(std::size_t choice, const core::generation_delta&) override;
  void collect_end(std::size_t choice, const core::generation_end&) override;
  std::string whole() override;

 protected:
  using tokens = std::vector<core::token_piece>;

  /// The members of one entry of "choices", between "index" and the end.
  virtual void put_delta(json_writer&, std::size_t choice, const core::generation_delta&) = 0;
  virtual void put_last(json_writer&) = 0;
  virtual void put_whole(json_writer&, std::size_t choice, const std::string& text,
                         const tokens&) = 0;

  template <class Members>
  std::string chunk(std::size_t choice, Members members, const std::string& timings = "") {
    json_writer out;
    put_head(out, meta_, chunk_object_, model_);
    out.key("choices").open_array().open_object().key("index").number(choice);
    members(out);
    out.close_object().close_array();
    return close_chunk(std::move(out), timings);
  }

  // For the endpoints' own members.
  reply_meta meta_;
  bool as_ids_;
  std::int32_t top_logprobs_;

 private:
  struct collected {
    std::string text;
    tokens pieces;
    core::generation_end end;
  };

  std::string close_chunk(json_writer, const std::string& timings);
  void take_usage(std::size_t choice, const core::generation_end&);

  const char* chunk_object_;
  const char* whole_object_;
  std::string model_;
  bool include_usage_, continuous_usage_;
  std::uint32_t n_;
  // By choice, index = prompt * n + i; the second is filled for one body only.
  std::vector<choice_tally> tallies_;
  std::vector<collected> collected_;
};

}  // namespace troupe::net
