#include "actors/embedding/pool_watch.hpp"

#include <catch2/catch.hpp>

using namespace troupe;
using namespace std::chrono_literals;

TEST_CASE("pool_watch: a pool is whole when as much came back as went out, and nothing is lost",
          "[actor]") {
  pool_watch pool;
  core::pool_record record;
  record.total = 8, record.used = 3, record.allocated_total = 3;
  pool.on_pool(record);
  CHECK_FALSE(pool.wait_whole(1ms));
  record.used = 0, record.quarantined = 1;
  pool.on_released(core::end_reason::length, false, 3, record);
  CHECK_FALSE(pool.wait_whole(1ms));
  record.quarantined = 0;
  pool.on_pool(record);
  CHECK(pool.wait_whole(1ms));
  pool.on_violation("a rule");
  CHECK(pool.violations() == std::vector<std::string>{"a rule"});
}
