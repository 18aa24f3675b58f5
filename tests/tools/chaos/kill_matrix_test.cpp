#include "tools/chaos/kill_matrix.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

using namespace troupe::chaos;

namespace {

const std::vector<transport> all_transports{transport::plain, transport::sse, transport::websocket};
const std::vector<manner> all_manners{manner::fin,         manner::reset,   manner::half_close,
                                      manner::close_frame, manner::silence, manner::kill_9};

std::vector<std::uint32_t> next_ns(kill_matrix& matrix, int count) {
  std::vector<std::uint32_t> ns;
  for (int i = 0; i < count; ++i) ns.push_back(matrix.next().n);
  return ns;
}

}  // namespace

TEST_CASE("kill_matrix: every combination is a cell, but a close frame needs a WebSocket") {
  const kill_matrix matrix{all_transports, all_manners, {}, 1};
  REQUIRE(matrix.cells().size() == (5 + 5 + 6) * 3);
  for (const auto& c : matrix.cells())
    REQUIRE((c.how != manner::close_frame || c.over == transport::websocket));
  REQUIRE(kill_matrix({transport::sse}, {manner::close_frame}, {}, 1).empty());
}

TEST_CASE("kill_matrix: each round visits each cell once, in the seed's order") {
  const auto order = [](std::uint64_t seed) {
    kill_matrix matrix{all_transports, all_manners, {}, seed};
    std::vector<std::size_t> indexes;
    for (int i = 0; i < 96; ++i) indexes.push_back(matrix.next().index);
    return indexes;
  };
  const auto first = order(1);
  REQUIRE(std::set(first.begin(), first.begin() + 48).size() == 48);
  REQUIRE(std::set(first.begin() + 48, first.end()).size() == 48);
  REQUIRE(first == order(1));
  REQUIRE(first != order(2));
}

TEST_CASE(
    "kill_matrix: N moves by the stride until a request outlives it, and the next sweep fills the "
    "gaps") {
  kill_matrix matrix{{transport::sse}, {manner::fin}, {3, 1, 1}, 1};
  // One cell of bytes among three: take its turns only.
  const auto turn = [&] {
    for (auto plan = matrix.next();; plan = matrix.next())
      if (plan.when == moment::bytes_sent) return plan;
  };
  REQUIRE(turn().n == 0);
  REQUIRE(turn().n == 3);
  const auto last = turn();
  REQUIRE(last.n == 6);
  const auto late = turn();
  matrix.survived(last);
  REQUIRE(turn().n == 1);
  matrix.survived(late);  // of the sweep that is over: it must not end the new one
  REQUIRE(turn().n == 4);
  const auto& bytes = *std::find_if(matrix.cells().begin(), matrix.cells().end(),
                                    [](const cell& c) { return c.when == moment::bytes_sent; });
  REQUIRE(bytes.sweeps == 1);
  REQUIRE(bytes.survived == 2);
}

TEST_CASE("kill_matrix: a kill counts for its cell, with the largest N") {
  kill_matrix matrix{{transport::plain}, {manner::reset}, {}, 1};
  const auto plan = matrix.next();
  auto later = plan;
  later.n = 7;
  matrix.killed(later);
  matrix.killed(plan);
  REQUIRE(matrix.cells()[plan.index].kills == 2);
  REQUIRE(matrix.cells()[plan.index].largest_n == 7);
  REQUIRE(next_ns(matrix, 5) == std::vector<std::uint32_t>{0, 0, 1, 1, 1});
}
