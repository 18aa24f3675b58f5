// Responses over HTTP: the events of responses_events framed as SSE, or the object in one piece.
#include "net/api/responses_events.hpp"

namespace troupe::net {
namespace {

std::string framed(const std::vector<wire_event>& events) {
  std::string all;
  for (const auto& e : events) all += sse_event(e.type, e.json);
  return all;
}

class responses_encoder final : public reply_encoder {
 public:
  responses_encoder(const api_request& request, reply_meta meta)
      : events_{request, std::move(meta)} {}

  std::string begin(std::size_t) override { return framed(events_.begin()); }
  std::string text(std::size_t, const core::generation_delta& d) override {
    return framed(events_.delta(d.text));
  }
  std::string end(std::size_t, const core::generation_end& e) override {
    return framed(events_.finish(e));
  }
  std::string close() override { return sse_done; }
  std::string fail(const api_error& e) override { return framed(events_.fail(e)) + sse_done; }
  void collect(std::size_t, const core::generation_delta& d) override { events_.collect(d.text); }
  void collect_end(std::size_t, const core::generation_end& e) override { events_.collect_end(e); }
  std::string whole() override { return events_.object(); }

 private:
  responses_events events_;
};

}  // namespace

std::unique_ptr<reply_encoder> make_responses_encoder(const api_request& request, reply_meta meta) {
  return std::make_unique<responses_encoder>(request, std::move(meta));
}

}  // namespace troupe::net
