// The client's end of one request: reads the answer with a credit of one, and knows what it must
// be. Complains of an event after the end, of a second end, of a piece without credit, and of a
// text that is not the one the request gets alone. Owned by its client; dropped when the client
// leaves.
#pragma once
#include <functional>
#include <optional>

#include "tests/sim/shells/referee.hpp"

namespace troupe::sim {

class reader final : public core::generation_sink {
 public:
  reader(const asked& wants, std::uint32_t number, referee& watch, std::function<void()> confirm)
      : wants_(wants),
        name_("client " + std::to_string(number + 1)),
        referee_(watch),
        confirm_(std::move(confirm)) {}

  void accepted(std::uint32_t prompt_tokens) override;
  void delta(core::generation_delta piece) override;
  void end(core::generation_end last) override;

  /// From now on nothing is confirmed.
  void stop_reading() { reading_ = false; }
  void read_on();
  bool reads() const { return reading_; }

  const std::optional<core::generation_end>& ended() const { return end_; }
  const std::string& text() const { return text_; }
  /// The text is the beginning of the solo answer, all of it after a natural end.
  void check_text() const;

 private:
  const asked& wants_;
  std::string name_;
  referee& referee_;
  std::function<void()> confirm_;
  std::string text_;
  bool accepted_ = false, reading_ = true, owes_ = false;
  std::uint32_t told_tokens_ = 0;
  std::optional<core::generation_end> end_;
};

}  // namespace troupe::sim
