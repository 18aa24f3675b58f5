// The client's side of one request: reads the answer piece by piece, confirms each, and knows what
// the whole must be. Reports an event after the end, a second end, a piece that was sent before the
// last one was confirmed, and a text that is not the one of the request alone. Owned by its client;
// dropped when the client leaves.
#pragma once
#include <functional>
#include <optional>

#include "tests/sim/shells/referee.hpp"

namespace troupe::sim {

class reader final : public core::generation_sink {
 public:
  reader(const client_request& wants, std::uint32_t number, referee& watch,
         std::function<void()> confirm)
      : wants_(wants),
        name_("client " + std::to_string(number + 1)),
        referee_(watch),
        confirm_(std::move(confirm)) {}

  void accepted(std::uint32_t prompt_tokens) override;
  void delta(core::generation_delta piece) override;
  void end(core::generation_end last) override;

  /// From now on no piece is confirmed, until read_on().
  void stop_reading() { reading_ = false; }
  void read_on();
  bool reads() const { return reading_; }

  const std::optional<core::generation_end>& ended() const { return end_; }
  const std::string& text() const { return text_; }
  /// The text is the beginning of the solo answer, all of it after a natural end.
  void check_text() const;

 private:
  const client_request& wants_;
  std::string name_;
  referee& referee_;
  std::function<void()> confirm_;
  std::string text_;
  bool accepted_ = false, reading_ = true, unconfirmed_ = false;
  std::uint32_t reported_tokens_ = 0;
  std::optional<core::generation_end> end_;
};

}  // namespace troupe::sim
