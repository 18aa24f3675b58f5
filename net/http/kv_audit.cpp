#include "net/http/kv_audit.hpp"

#include <condition_variable>
#include <memory>
#include <mutex>

#include "net/json/json_reader.hpp"
#include "net/json/json_writer.hpp"

namespace troupe::net {
namespace {

/// Where the engine's threads put their parts. Shared: it outlives a request that timed out.
class part_collector {
 public:
  void put(core::kv_part part) {
    const std::lock_guard lock{mutex_};
    // Each part comes once, from its owner's thread.
    std::visit([this](auto& x) { take(x); }, part);
    changed_.notify_all();
  }
  /// The names of the parts that did not come in time.
  std::string wait(std::chrono::milliseconds at_most) {
    std::unique_lock lock{mutex_};
    changed_.wait_for(lock, at_most, [this] { return scheduler_ && allocator_ && mover_; });
    std::string missing;
    for (const auto& [here, name] :
         {std::pair{scheduler_, "scheduler"}, {allocator_, "allocator"}, {mover_, "mover"}})
      if (!here) missing += (missing.empty() ? "" : ", ") + std::string{name};
    return missing;
  }
  const core::kv_report& report() const { return report_; }

 private:
  void take(core::kv_scheduler_part& x) { report_.scheduler = std::move(x), scheduler_ = true; }
  void take(core::kv_allocator_part& x) { report_.allocator = std::move(x), allocator_ = true; }
  void take(core::kv_mover_part& x) { report_.mover = std::move(x), mover_ = true; }

  std::mutex mutex_;
  std::condition_variable changed_;
  core::kv_report report_;
  bool scheduler_ = false, allocator_ = false, mover_ = false;
};

/// null where no lease is held.
void write_lease(json_writer& out, std::optional<core::lease_id> lease) {
  lease ? out.string(name_of(*lease)) : out.null();
}

// The order of the enum.
const char* name_of_place(core::block_place where) {
  constexpr const char* names[] = {"free", "leased", "cached", "quarantined"};
  return names[static_cast<std::size_t>(where)];
}

/// Neighbours that are alike become one entry.
void write_blocks(json_writer& out, const std::vector<core::block_census_line>& blocks) {
  out.open_array();
  for (std::size_t i = 0, next = 0; i < blocks.size(); i = next) {
    while (next < blocks.size() && blocks[next].where == blocks[i].where &&
           blocks[next].holders == blocks[i].holders &&
           blocks[next].copied_by == blocks[i].copied_by)
      ++next;
    out.open_object().key("first").number(i).key("last").number(next - 1);
    out.key("state").string(name_of_place(blocks[i].where)).key("leases").open_array();
    for (const auto lease : blocks[i].holders) out.string(name_of(lease));
    out.close_array();
    if (!blocks[i].copied_by.empty()) {
      out.key("copied_by").open_array();
      for (const auto lease : blocks[i].copied_by) out.string(name_of(lease));
      out.close_array();
    }
    out.close_object();
  }
  out.close_array();
}

/// "moving" is the mover's to know: it stands here because sums of the pool are looked for here.
void write_allocator(json_writer& out, const core::kv_report& report, bool with_blocks) {
  const auto& part = report.allocator;
  const auto& c = part.counts;
  out.open_object().key("total").number(c.total).key("free").number(c.free).key("leased").number(
      c.leased);
  out.key("cached").number(c.cached).key("quarantined").number(c.quarantined);
  out.key("moving").number(moving_blocks(report.mover)).key("leaked").number(part.leaked);
  out.key("allocated_total")
      .number(c.allocated_total)
      .key("released_total")
      .number(c.released_total);
  out.key("evicted_total").number(c.evicted_total).key("empty_releases").number(c.empty_releases);
  if (with_blocks) write_blocks(out.key("blocks"), part.blocks);
  out.close_object();
}

/// One request as the scheduler sees it; times count back from the moment of its audit.
void write_request(json_writer& out, const core::kv_request_view& r, core::time_us at) {
  out.open_object().key("id").number(r.id.value).key("state").string(r.state).key("lease");
  write_lease(out, r.lease);
  // null: no lease; a number: blocks of the lease, as the scheduler knows them.
  out.key("blocks");
  r.blocks ? out.number(r.blocks->size()) : out.null();
  out.key("computed_tokens").number(r.computed).key("copy");
  write_lease(out, r.copy);
  if (!r.sources.empty()) {
    out.key("copies_blocks").open_array();  // one of each layer group
    for (const auto block : r.sources) out.number(block);
    out.close_array();
  }
  if (r.leader) out.key("waits_for").number(r.leader->value);
  out.key("copy_blocks").number(r.copy_blocks).key("events").open_array();
  // The last few, oldest first, on the scheduler's clock; equal ones in a row are counted.
  for (const auto& e : r.events) {
    out.open_object().key("event").string(e.what).key("lease");
    write_lease(out, e.epoch > 0 ? std::optional(core::lease_id{r.id, e.epoch}) : std::nullopt);
    out.key("times").number(e.times).key("ago_us").number(at - e.at).close_object();
  }
  out.close_array().close_object();
}

/// Also what is in flight: a step or a move names blocks that nobody may release yet.
void write_scheduler(json_writer& out, const core::kv_scheduler_part& part) {
  out.open_object().key("requests").open_array();
  for (const auto& r : part.requests) write_request(out, r, part.at);
  out.close_array().key("step");
  if (part.step) {
    out.open_object().key("id").number(part.step->step.value).key("requests").open_array();
    for (const auto id : part.step->requests) out.number(id.value);
    out.close_array().close_object();
  } else {
    out.null();
  }
  out.key("moves").open_array();
  for (const auto& m : part.moves) {
    out.open_object().key("id").number(m.move.value).key("request").number(m.request.value);
    out.key("lease").string(name_of(m.lease)).key("copy").string(name_of(m.copy));
    out.key("direction").string(m.out ? "out" : "in").key("blocks").number(m.blocks);
    out.key("age_us").number(m.age_us).key("abandoned").boolean(m.abandoned).close_object();
  }
  out.close_array().key("ignored_events").number(part.ignored_events).close_object();
}

/// The host tier: copies of preempted requests, each under the lease it was copied from.
void write_mover(json_writer& out, const core::kv_mover_part& part) {
  const auto& c = part.counts;
  out.open_object().key("total").number(c.total).key("used").number(c.used).key("filled").number(
      c.filled);
  out.key("moving")
      .number(moving_blocks(part))
      .key("leaked")
      .number(part.leaked)
      .key("copies")
      .open_array();
  for (const auto& copy : part.copies) {
    out.open_object().key("lease").string(name_of(copy.lease)).key("slots").number(copy.slots);
    out.key("filled").number(copy.filled).key("moving").number(copy.moving).close_object();
  }
  out.close_array()
      .key("reserved_total")
      .number(c.reserved_total)
      .key("freed_total")
      .number(c.freed_total);
  out.key("unknown_drops")
      .number(c.unknown_drops)
      .key("stale_ends")
      .number(c.stale_ends)
      .close_object();
}

/// Engines that an embedding program brings need not have a probe.
http_reply nothing_to_probe() {
  return error_reply(server_error("no_probe", "This engine has no debugging probe.", 503));
}

}  // namespace

// `sound` and `problems` first: whoever looks in an emergency reads no further.
std::string kv_report_json(const core::kv_report& report, bool with_blocks) {
  // Compared here, on the caller's thread: the engine does not stop for it.
  const auto problems = find_problems(report);
  json_writer out;
  out.open_object().key("sound").boolean(problems.empty()).key("problems").open_array();
  for (const auto& what : problems) out.string(what);
  write_allocator(out.close_array().key("allocator"), report, with_blocks);
  write_scheduler(out.key("scheduler"), report.scheduler);
  write_mover(out.key("mover"), report.mover);
  return out.close_object().take();
}

// The query is checked as strictly as a body: a misspelt one would answer with everything.
http_reply kv_audit(core::engine_probe* probe, std::string_view query,
                    std::chrono::milliseconds wait) {
  if (!query.empty() && query != "blocks=0" && query != "blocks=1")
    return error_reply(invalid_value("blocks", "The query may be 'blocks=0' or 'blocks=1'."));
  if (!probe) return nothing_to_probe();
  // The engine keeps its copy of the callback, so parts that come late find their place.
  const auto parts = std::make_shared<part_collector>();
  probe->audit([parts](core::kv_part part) { parts->put(std::move(part)); });
  if (const auto missing = parts->wait(wait); !missing.empty())
    return error_reply(server_error(
        "audit_incomplete",
        "No answer within " + std::to_string(wait.count()) + " ms from: " + missing + ".", 503));
  return {
      .status = 200, .headers = {}, .body = kv_report_json(parts->report(), query != "blocks=0")};
}

// For tests and drills: what a stall looks like from outside.
http_reply freeze(core::engine_probe* probe, std::string_view body) {
  json_document document;
  if (auto fault = document.parse_object(body, "request body")) return error_reply(*fault);
  for (const auto field : document.object())
    if (field.key != "ms")
      return error_reply(unsupported_parameter(std::string{field.key}, "The only field is 'ms'."));
  const auto value = find(document.object(), "ms");
  const auto ms = value ? as_integer(*value) : std::nullopt;
  if (!ms || *ms < 1 || *ms > freeze_ms_max)
    return error_reply(invalid_value(
        "ms", "'ms' must be an integer, 1 to " + std::to_string(freeze_ms_max) + "."));
  if (!probe) return nothing_to_probe();
  probe->freeze(static_cast<std::uint32_t>(*ms));
  json_writer out;
  return {.status = 200,
          .headers = {},
          .body = out.open_object()
                      .key("object")
                      .string("debug.freeze")
                      .key("ms")
                      .number(*ms)
                      .close_object()
                      .take()};
}

}  // namespace troupe::net
