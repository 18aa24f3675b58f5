// The event sequence of one Responses object, in order and numbered, and the object itself with all
// its keys. Pure; used by the WebSocket and by SSE. Owned by the reply in progress.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "net/api/reply_encoder.hpp"

namespace troupe::net {

struct wire_event {
  std::string type;
  std::string json;
};

class responses_events {
 public:
  responses_events(const api_request&, reply_meta);

  /// created, in_progress, output_item.added, content_part.added.
  std::vector<wire_event> begin();
  /// Nothing for empty text.
  std::vector<wire_event> delta(const std::string& text);
  /// The rest up to response.completed or response.incomplete.
  std::vector<wire_event> finish(const core::generation_end&);
  /// error, then response.failed.
  std::vector<wire_event> fail(const api_error&);

  /// For a reply in one piece: text first, then the end; then object().
  void collect(const std::string& text) { text_ += text; }
  void collect_end(const core::generation_end&);
  std::string object() const;

 private:
  enum class status : std::uint8_t { in_progress, completed, incomplete, failed };
  template <class Members>
  wire_event event(const char* type, Members members);
  wire_event response_event(const char* type);
  void put_item_ids(json_writer&) const;
  std::string item(const char* state, bool with_content) const;
  std::string part(const std::string& text) const;
  void put_request_fields(json_writer&) const;
  void put_fixed_fields(json_writer&) const;
  std::string usage() const;
  const char* status_name() const;

  reply_meta meta_;
  std::string model_, message_id_, text_;
  responses_fields fields_;
  sampling_params sampling_;
  status status_ = status::in_progress;
  bool begun_ = false;
  std::optional<core::generation_end> end_;
  std::optional<api_error> error_;
  std::int64_t completed_at_ = 0;
  std::uint64_t next_number_ = 0;
};

}  // namespace troupe::net
