#include "tools/chaos/idle_time.hpp"

#include <catch2/catch.hpp>

using namespace troupe::chaos;
using namespace std::chrono_literals;

namespace {

const end_of_wave::time_point start{1h};

}  // namespace

TEST_CASE("D10 idle_time: work for a client that survives is not held against the last kill") {
  end_of_wave end;
  end.kill(start + 10ms);
  end.kill(start + 40ms);
  end.kill(start + 20ms);
  CHECK(end.ms_until(start + 100ms) == 60);
  end.answer(start + 30ms);  // before the last kill
  CHECK(end.ms_until(start + 100ms) == 60);
  end.answer(start + 90ms);
  end.answer(start + 70ms);
  CHECK(end.ms_until(start + 100ms) == 10);
}

TEST_CASE("D10 idle_time: a wave in which nobody died has no such time") {
  end_of_wave end;
  CHECK_FALSE(end.ms_until(start));
  end.answer(start);
  CHECK_FALSE(end.ms_until(start + 5ms));
}

TEST_CASE("D10 idle_time: a wave with longer steps may take longer, unless a limit is given") {
  CHECK(idle_limit_ms({}, 100, {}) == 150);
  CHECK(idle_limit_ms({}, 100, 80) == 150);
  CHECK(idle_limit_ms({}, 100, 900) == 950);
  CHECK(idle_limit_ms(300, 100, 900) == 300);
}
