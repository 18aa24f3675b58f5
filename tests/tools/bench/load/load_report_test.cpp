#include "tools/bench/load/load_report.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

namespace {

using namespace troupe;
using namespace std::chrono_literals;

load_record whole(steady::duration first, steady::duration last, std::uint32_t tokens) {
  load_record out;
  out.status = 200;
  out.first = out.arrived + first;
  out.last = out.ended = out.arrived + last;
  out.pieces = out.completion_tokens = tokens;
  for (std::uint32_t i = 1; i < tokens; ++i) out.gaps_ms.push_back(10);
  return out;
}

load_record faulty(const std::string& fault, bool slow = false) {
  auto out = whole(1s, 2s, 3);
  out.fault = fault;
  out.slow = slow;
  out.detail = "why";
  return out;
}

TEST_CASE(
    "D11 load report: an answer that came in one read takes its time per token from the server's "
    "timings") {
  load_result result;
  result.options.slo_ttft_ms = 60000;
  result.options.slo_tpot_ms = 0.0001;
  auto at_once = whole(100ms, 100ms, 6);
  at_once.server_tokens_per_s = 250;
  auto single = whole(100ms, 100ms, 6);
  single.pieces = 1;
  single.server_tokens_per_s = 500;
  result.records = {at_once, single};
  const auto f = figures_of(result);
  CHECK(f.tpot == std::vector<double>{4, 2});
  CHECK(f.within_slo == 0);
}

TEST_CASE(
    "load report: latencies are those of whole answers alone, and everything sent is accounted "
    "for") {
  load_result result;
  result.elapsed_s = 2;
  result.options.slo_ttft_ms = 150;
  result.options.slo_tpot_ms = 20;
  auto slow = whole(5s, 9s, 4);
  slow.slow = true;
  result.records = {
      whole(100ms, 190ms, 10), whole(200ms, 290ms, 10), whole(100ms, 1000ms, 10), slow,
      faulty("cancelled"),     faulty("http_503"),      faulty("cut", true)};
  const auto f = figures_of(result);
  CHECK(f.sent == 7);
  CHECK(f.whole == 3);
  CHECK(f.slow == 1);
  CHECK(f.cancelled == 1);
  CHECK(f.failed == 2);
  CHECK(f.errors == std::map<std::string, std::size_t>{{"http_503", 1}, {"slow_cut", 1}});
  CHECK(f.first_error == "http_503: why");
  CHECK(f.ttft == std::vector<double>{100, 200, 100});
  CHECK(f.tpot == std::vector<double>{10, 10, 100});
  CHECK(f.e2e == std::vector<double>{190, 290, 1000});
  CHECK(f.inter_token.size() == 27);
  CHECK(f.within_slo == 1);
  CHECK(f.output_tokens == 3 * 10 + 4 + 3 * 3);

  const auto json = to_json(result, f);
  CHECK(json["output_tokens_per_s"].get<double>() == 21.5);
  CHECK(json["requests_per_s"].get<double>() == 2);
  CHECK(json["goodput"]["share"].get<double>() == 0.2);
  CHECK(json["goodput"]["requests_per_s"].get<double>() == 0.5);
  CHECK(to_words(result, f).find("3 whole, 1 by slow readers, 1 cancelled, 2 failed") !=
        std::string::npos);
}

TEST_CASE("load report: one token has no time per token, and no request is no figure") {
  load_result result;
  result.records = {whole(100ms, 100ms, 1)};
  const auto f = figures_of(result);
  CHECK(f.tpot.empty());
  CHECK(f.within_slo == 1);
  const auto none = figures_of({});
  CHECK(to_json({}, none)["ttft_ms"]["p99"].get<double>() == 0);
  CHECK_FALSE(to_words({}, none).empty());
}

TEST_CASE("load report: the plot draws what was measured and names what was not") {
  load_figures f;
  f.ttft = {1, 10, 100};
  f.inter_token.assign(5000, 0);
  const auto svg = svg_of("a < b & c", panels_of(f));
  CHECK(svg.find("a &lt; b &amp; c") != std::string::npos);
  CHECK(svg.find("P50 10.0") != std::string::npos);
  CHECK(svg.find("nothing measured") != std::string::npos);
  CHECK(svg.find("nan") == std::string::npos);
  CHECK(svg.find("inf") == std::string::npos);
}

}  // namespace
