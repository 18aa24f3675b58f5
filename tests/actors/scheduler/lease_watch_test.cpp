#include "actors/scheduler/lease_watch.hpp"

#include <catch2/catch.hpp>

#include "tests/support/recording.hpp"

using namespace troupe;

namespace {

struct watched {
  test::recording_observer seen;
  lease_watch leases{seen};
  core::lease_id lease{core::request_id{7}, 1};
};

}  // namespace

TEST_CASE_METHOD(watched, "a release's latency is reported once, when the allocator confirms it",
                 "[lease_watch]") {
  leases.await_release(lease, 1'000);
  leases.confirm_release({lease, 1, true}, 2'000);  // a block of another lease came back
  leases.confirm_release({{core::request_id{8}, 1}, 4, false}, 3'000);
  CHECK(seen.latencies.empty());
  leases.confirm_release({lease, 4, false}, 501'000);
  leases.confirm_release({lease, 4, false}, 900'000);
  REQUIRE(seen.latencies.size() == 1);
  CHECK(seen.latencies.front() == Approx(0.5));
}

TEST_CASE_METHOD(watched,
                 "a leak is told with the lease's last events, and its release is awaited no more",
                 "[lease_watch]") {
  leases.note(core::admitted{lease.request}, 100);
  leases.note(core::reserve{lease, 3, 0, {}}, 110);
  leases.note(core::tick{}, 120);  // names no lease
  leases.note(core::granted{lease, {}, 0}, 150);
  leases.await_release(lease, 200);
  CHECK(leases.on_leaked({{lease}, 3}) ==
        "3 blocks leaked, quarantined; no live request owns lease 7.1 (admitted +0 us, reserve 7.1 "
        "+10 us, "
        "granted 7.1 +50 us)");
  leases.confirm_release({lease, 3, false}, 300);
  CHECK(seen.latencies.empty());
  CHECK(leases.events_of(lease.request).size() == 3);
}
