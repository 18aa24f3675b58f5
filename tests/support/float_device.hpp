// A second device, for tests: the Llama of tiny models in plain float32 loops, written against the
// public headers of gpu/ alone. What the product does with it, it does through the seam. Its layers
// form one group, or two: then the upper half of the layers looks back over a window only. Owns its
// weights, its KV blocks and the host memory it hands out; the bits of a row depend on its own
// sequence alone, because every row is computed by itself.
#pragma once
#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "gpu/make_backend.hpp"

namespace troupe::test {

class float_device final : public gpu::backend {
 public:
  /// With a window, the upper half of the layers is a group of its own that looks back over so many
  /// tokens. Throws model_error for a tensor that is neither F32 nor F16.
  float_device(std::shared_ptr<const gpu::loaded_model> model, const gpu::backend_options&,
               std::uint32_t window = 0);
  /// Ends the copies that are under way.
  ~float_device() override;

  const gpu::device_info& info() const override { return info_; }
  std::unique_ptr<gpu::planned_step> plan(gpu::step_batch) override;
  gpu::step_result run(gpu::planned_step&) override;
  void copy(gpu::block_copy, std::function<void(bool ok)> done) override;
  std::unique_ptr<gpu::host_buffer> make_host_buffer(std::size_t bytes) override;

  /// Bytes of the host buffers that live.
  std::uint64_t host_bytes() const { return *host_bytes_; }

  /// Its row for gpu::make_backend, named "float".
  static gpu::device_kind kind();
  /// One and a half blocks, so that a window ends within one.
  static constexpr std::uint32_t windowed_tokens = 24;
  /// The row "windowed": the same with two layer groups, of which one has that window.
  static gpu::device_kind windowed_kind();

 private:
  struct matrix {
    std::vector<float> values;  // [rows][cols]
    std::uint32_t rows = 0, cols = 0;
  };
  struct layer_weights {
    std::vector<float> attention_norm, ffn_norm;
    matrix q, k, v, o, gate, up, down;
  };

  matrix read(const std::string& name) const;
  /// Throws batch_error for a position whose block was given back.
  float* place(const gpu::sequence_slice&, std::uint32_t layer, std::uint32_t position, bool value,
               std::uint32_t head);
  std::vector<float> logits(const gpu::sequence_slice&, token_id, std::uint32_t position);
  void attend(const gpu::sequence_slice&, std::uint32_t layer, std::uint32_t position,
              std::vector<float>& q, std::vector<float>& out);

  std::shared_ptr<const gpu::loaded_model> model_;
  gpu::device_info info_;
  std::vector<std::size_t> group_of_layer_;
  std::vector<std::size_t> group_begins_;  // in pool_, in floats
  std::vector<float> pool_;
  std::vector<layer_weights> layers_;
  matrix embedding_, head_;
  std::vector<float> output_norm_;
  std::shared_ptr<std::atomic<std::uint64_t>> host_bytes_ =
      std::make_shared<std::atomic<std::uint64_t>>(0);
  std::mutex mutex_;
  std::list<std::thread> copies_;
};

}  // namespace troupe::test
