// The events of a `text/event-stream` body, as the HTML standard splits it (9.2.6): lines end in
// LF, CRLF or CR, an empty line ends an event, comments and fields but `data` are passed over, and
// an event that its stream cuts off is none. Pure.
#pragma once
#include <functional>
#include <string>
#include <string_view>

namespace troupe::api_client {

class sse_reader {
 public:
  using event_call = std::function<void(std::string_view data)>;

  /// Calls with the data of each event, its lines joined by LF. Throws std::runtime_error for one
  /// of more than a mebibyte.
  void feed(std::string_view bytes, const event_call&);

 private:
  void take_line(const event_call&);

  std::string line_, data_;
  bool has_data_ = false;  // also when the data is empty
  bool after_cr_ = false;  // the line break may go on with the next byte
};

}  // namespace troupe::api_client
