// From the bytes of one HTTP reply to the events of an OpenAI stream, without a full parse: the
// load generator shares the cores with the server it measures. Owned by one request. Knows no
// socket and no clock.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace troupe {

/// What one `data:` payload says.
struct stream_event {
  bool text = false;      ///< carries a piece of the answer that is not empty
  bool finished = false;  ///< names a finish_reason
  bool done = false;      ///< [DONE]
  bool error = false;     ///< the server reports an error inside the stream
  std::optional<std::uint32_t> prompt_tokens, completion_tokens;
  std::optional<double> tokens_per_s;  ///< of the decode, as the server's timings tell it
};

stream_event read_event(std::string_view payload);

class stream_reader {
 public:
  using event_call = std::function<void(const stream_event&)>;

  /// Throws std::runtime_error for bytes that are no HTTP/1 reply.
  void feed(std::string_view bytes, const event_call&);
  /// 0 until the head is there.
  int status() const { return status_; }
  /// The body is complete by its own framing.
  bool complete() const { return state_ == state::over; }
  /// The framing is "until the connection closes".
  bool until_close() const { return state_ == state::plain && !length_; }
  /// The body of a reply that is no event stream, its first 64 KiB.
  const std::string& body() const { return text_; }

 private:
  enum class state { head, plain, chunk_size, chunk, chunk_end, trailer, over };
  bool take_line(std::string_view& bytes, std::string& line);
  void read_head_line(const std::string&);
  void begin_body();
  void content(std::string_view bytes, const event_call&);

  state state_ = state::head;
  int status_ = 0;
  bool chunked_ = false, events_ = false;
  std::optional<std::uint64_t> length_;  // what is left of the body, or of the chunk
  std::string line_;                     // a line of the framing, not yet whole
  std::string text_;                     // a line of the event stream, or the body
};

}  // namespace troupe
