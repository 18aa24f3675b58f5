#include "gpu/cpu/cpu_device.hpp"

#include <charconv>
#include <stdexcept>

#include "gpu/cpu/backend_cpu.hpp"
#include "gpu/cpu/weights/pack_weights.hpp"
#include "gpu/host_limits.hpp"

namespace troupe::gpu {
namespace {

constexpr std::uint32_t threads_max = 1024;

/// Empty: not given.
std::string own_option(const backend_options& options, const char* name) {
  const auto found = options.own.find(name);
  return found == options.own.end() ? std::string() : found->second;
}

std::uint32_t read_threads(const std::string& text) {
  std::uint32_t value = 0;
  const auto end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  if (read.ec != std::errc{} || read.ptr != end || value > threads_max)
    throw std::invalid_argument("--threads: \"" + text + "\" is not a number from 0 to " +
                                std::to_string(threads_max));
  return value;
}

std::uint32_t threads_of(const backend_options& options) {
  const auto own = read_cpu_options(options);
  const std::uint32_t compute = own.threads ? own.threads : usable_cores();
  const std::uint32_t copier = 1;
  return compute - 1 + copier;  // the thread that drives the device computes too
}

std::unique_ptr<backend> make_cpu(std::shared_ptr<const loaded_model> model,
                                  const backend_options& options) {
  return std::make_unique<cpu_backend>(std::move(model), options);
}

}  // namespace

cpu_options read_cpu_options(const backend_options& options) {
  cpu_options out;
  if (const auto text = own_option(options, "threads"); !text.empty())
    out.threads = read_threads(text);
  if (const auto text = own_option(options, "isa"); !text.empty()) out.isa = text;
  if (const auto text = own_option(options, "panel-cache"); !text.empty()) {
    if (text != "true" && text != "false")
      throw std::invalid_argument("--panel-cache: \"" + text + "\" is not true or false");
    out.panel_cache = text == "true";
  }
  return out;
}

device_kind cpu_device_kind() {
  return {.name = "cpu",
          .options = {"threads", "isa", "panel-cache"},
          .kv_dtypes = {kv_f16, kv_bf16, kv_int8, kv_fp8_e4m3, kv_fp8_e5m2, kv_int4},
          .present = [] { return true; },
          .weight_bytes = packed_weight_bytes,
          .available_memory = [] { return available_memory(); },
          .threads_needed = threads_of,
          .make = make_cpu};
}

}  // namespace troupe::gpu
