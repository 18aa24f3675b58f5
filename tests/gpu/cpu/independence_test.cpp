// The promise that cannot be added later: a token's result depends on its own sequence alone. One
// sequence is computed alone, in one go, on one thread; then in every other way a scheduler could
// choose, and all logits are compared bit by bit: chunk sizes, company of 1 to 64 other rows,
// thread counts, block tables, block sizes, every instruction set.
#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <random>

#include "tests/gpu/cpu/device_rig.hpp"

using namespace troupe;
using namespace troupe::gpu;
using namespace troupe::test;

namespace {

constexpr std::uint32_t length = 600;  // three splits of attention
constexpr std::uint64_t subject = 7;   // the key of the sequence under test

std::vector<token_id> random_tokens(std::uint64_t seed, std::uint32_t count, std::uint32_t vocab) {
  std::mt19937_64 random(seed);
  std::vector<token_id> tokens(count);
  for (token_id& token : tokens) token = static_cast<token_id>(random() % vocab);
  return tokens;
}

struct way {
  std::uint32_t threads = 1;
  std::uint32_t chunk = length;
  std::uint32_t company = 0;     ///< other sequences in every step, each with 1 to 5 tokens
  std::uint64_t table_seed = 0;  ///< shuffles the block table; 0: in order
  std::uint32_t block_size = 16;
};

class sequence_runner {
 public:
  sequence_runner(std::shared_ptr<const loaded_model> model, const std::string& isa, const way& how)
      : how_(how),
        vocab_(model->config.vocab),
        tokens_(random_tokens(42, length, vocab_)),
        device_(model, device_options(how.threads, 64 + 2 * how.company + 2, isa, how.block_size)),
        record_(device_) {
    table_ = blocks_from(0, 64);
    std::mt19937_64 random(how.table_seed);
    if (how.table_seed != 0) std::shuffle(table_.begin(), table_.end(), random);
  }

  /// The logits at every position from `from` on.
  std::vector<std::vector<float>> logits(std::uint32_t from) {
    for (std::uint32_t start = 0, round = 0; start < length; ++round) {
      const std::uint32_t count = std::min(how_.chunk, length - start);
      step_batch batch;
      const std::uint32_t place = how_.company ? round % how_.company : 0;
      for (std::uint32_t i = 0; i <= how_.company; ++i) {
        if (i == place) add_subject(batch, start, count);
        if (i < how_.company) add_company(batch, i, round);
      }
      record_.expect(batch);
      run_step(device_, std::move(batch));
      start += count;
    }
    std::vector<std::vector<float>> rows;
    for (std::uint32_t position = from; position < length; ++position) {
      rows.push_back(record_.at(subject, position));
    }
    return rows;
  }

 private:
  void add_subject(step_batch& batch, std::uint32_t start, std::uint32_t count) {
    batch.slices.push_back(slice_of(subject, tokens_, start, count, table_));
    want_all(batch.slices.back());
  }

  void add_company(step_batch& batch, std::uint32_t index, std::uint32_t round) {
    const std::uint32_t count = 1 + (index + round) % 5;
    const auto tokens = random_tokens(1000 + index * 31 + round, count, vocab_);
    batch.slices.push_back(slice_of(100 + index, tokens, 0, count, {64 + index}));
    batch.slices.back().sample = index % 2 == 0;
  }

  way how_;
  std::uint32_t vocab_;
  std::vector<token_id> tokens_;
  cpu_backend device_;
  logit_record record_;
  std::vector<std::uint32_t> table_;
};

std::vector<std::vector<float>> run_way(const std::shared_ptr<const loaded_model>& model,
                                        const std::string& isa, const way& how,
                                        std::uint32_t from = 0) {
  return sequence_runner(model, isa, how).logits(from);
}

/// The first row that differs in any bit, or -1.
int first_difference(const std::vector<std::vector<float>>& a,
                     const std::vector<std::vector<float>>& b) {
  if (a.size() != b.size()) return 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].size() != b[i].size() || std::memcmp(a[i].data(), b[i].data(), a[i].size() * 4) != 0) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

const way ways[] = {
    {1, 1, 0, 0, 16},   {2, 3, 0, 5, 16},   {3, 16, 0, 0, 32},   {8, 17, 0, 6, 16},
    {2, 512, 0, 7, 32}, {1, 64, 1, 0, 16},  {2, 32, 3, 8, 16},   {3, 33, 7, 0, 16},
    {8, 40, 16, 9, 32}, {2, 25, 40, 0, 16}, {2, 100, 64, 3, 16}, {1, 256, 13, 0, 16},
    {8, 600, 2, 0, 16}, {2, 7, 5, 4, 32},
};

tiny_llama shape_of(std::uint32_t type) {
  tiny_llama shape;
  shape.context = 1024;
  shape.type = type;
  shape.heads = 4;
  shape.kv_heads = 2;
  shape.tied = type != 1;
  if (type == 12) {  // Q4_K as files have it, with some Q6_K
    shape.width = shape.ffn_width = 256;
    shape.other_type = 14;
  }
  return shape;
}

/// How the tokens behind a long prompt are computed, which is the same in every way.
struct long_way {
  std::uint32_t threads = 1;
  std::uint32_t chunk = 1;
  std::uint32_t long_ones = 0;   ///< other long sequences in every step, each with one token
  std::uint32_t short_ones = 0;  ///< and short ones, each with 1 to 3
};

const long_way long_ways[] = {{2, 1},       {3, 1},        {8, 1},       {2, 1, 1, 0},
                              {8, 1, 2, 0}, {2, 1, 0, 40}, {3, 1, 1, 9}, {2, 4},
                              {8, 5},       {3, 40},       {8, 40, 1, 3}};

std::vector<std::vector<float>> long_context_logits(
    const std::shared_ptr<const loaded_model>& model, const std::string& isa, const long_way& how) {
  constexpr std::uint32_t prompt = 1264, last = 1304;  // five splits, then six
  constexpr std::uint32_t blocks = 82;                 // of each long sequence
  const auto tokens = random_tokens(42, last, model->config.vocab);
  const auto others = random_tokens(43, last, model->config.vocab);
  const std::uint32_t short_blocks = blocks * (1 + how.long_ones);
  cpu_backend device(model, device_options(how.threads, short_blocks + how.short_ones, isa));
  logit_record record(device);
  const auto run = [&](step_batch batch) {
    record.expect(batch);
    run_step(device, std::move(batch));
  };
  const auto add_long = [&](step_batch& batch, std::uint32_t index, std::uint32_t start,
                            std::uint32_t count) {
    batch.slices.push_back(slice_of(index ? 100 + index : subject, index ? others : tokens, start,
                                    count, blocks_from(index * blocks, blocks)));
  };
  for (std::uint32_t i = 0; i <= how.long_ones; ++i) {
    step_batch batch;
    add_long(batch, i, 0, prompt);
    run(std::move(batch));
  }
  for (std::uint32_t start = prompt; start < last; start += how.chunk) {
    step_batch batch;
    for (std::uint32_t i = 0; i < how.short_ones; ++i) {
      batch.slices.push_back(slice_of(200 + i, others, 0, 1 + i % 3, {short_blocks + i}));
    }
    add_long(batch, 0, start, std::min(how.chunk, last - start));
    want_all(batch.slices.back());
    for (std::uint32_t i = 1; i <= how.long_ones; ++i) add_long(batch, i, prompt, 1);
    run(std::move(batch));
  }
  std::vector<std::vector<float>> rows;
  for (std::uint32_t at = prompt; at < last; ++at) rows.push_back(record.at(subject, at));
  return rows;
}

}  // namespace

TEST_CASE(
    "cpu device: C136 C137 a sequence's logits are the same bits in every chunking, company, "
    "thread "
    "count and block table",
    "[gpu][independence]") {
  for (const std::uint32_t type : {3u, 8u, 2u, 1u, 0u, 7u, 12u, 30u}) {
    const auto model = load_tiny(shape_of(type));
    for (const kernel_table* kernels : supported_kernels()) {
      const bool fast = std::string(kernels->isa) != "portable";
      if (!fast && type != 3)
        continue;  // the portable kernels share their source with the others; one type is enough
      const auto alone = run_way(model, kernels->isa, {});
      for (const way& how : ways) {
        INFO(kernels->isa << ", type " << type << ", threads " << how.threads << ", chunk "
                          << how.chunk << ", company " << how.company << ", block size "
                          << how.block_size);
        CHECK(first_difference(alone, run_way(model, kernels->isa, how)) == -1);
      }
    }
  }
}

TEST_CASE(
    "cpu device: a long context's logits are the same bits when its attention is cut for several "
    "threads",
    "[gpu][independence]") {
  tiny_llama shape = shape_of(3);
  shape.context = 2048;
  const auto model = load_tiny(shape);
  for (const kernel_table* kernels : supported_kernels()) {
    const auto alone = long_context_logits(model, kernels->isa, {1, 1});
    for (const long_way& how : long_ways) {
      INFO(kernels->isa << ", threads " << how.threads << ", chunk " << how.chunk << ", beside "
                        << how.long_ones << " long and " << how.short_ones << " short");
      CHECK(first_difference(alone, long_context_logits(model, kernels->isa, how)) == -1);
    }
  }
}

TEST_CASE("cpu device: another token anywhere before a position changes its logits",
          "[gpu][independence]") {
  const auto model = load_tiny(shape_of(3));
  const auto tokens = random_tokens(42, 40, model->config.vocab);
  const auto last_logits = [&](const std::vector<token_id>& sequence) {
    cpu_backend device(model, device_options(1, 4));
    logit_record record(device);
    step_batch batch;
    batch.slices.push_back(slice_of(0, sequence, 0, 40, blocks_from(0, 3)));
    batch.slices[0].sample = true;
    record.expect(batch);
    run_step(device, std::move(batch));
    return record.at(0, 39);
  };
  const auto before = last_logits(tokens);
  for (const std::size_t position : {std::size_t{0}, std::size_t{20}, std::size_t{39}}) {
    auto changed = tokens;
    changed[position] = (changed[position] + 1) % static_cast<token_id>(model->config.vocab);
    CHECK(last_logits(changed) != before);
  }
}

TEST_CASE("cpu device: NaN left in a block by its last owner never reaches the next one",
          "[gpu][independence]") {
  const auto model = load_tiny(shape_of(3));
  const auto tokens = random_tokens(42, 21, model->config.vocab);
  const auto logits_after = [&](std::byte fill) {
    cpu_backend device(model, device_options(2, 2));
    std::vector<std::byte> bytes(2 * device.info().kv.block_bytes(0), fill);
    std::atomic<bool> done{false};
    const auto places = cut_into_blocks(bytes, device.info().kv.block_bytes(0));
    device.copy({block_copy::direction::to_device, {0, 1}, places}, [&](bool) {
      done = true;
      done.notify_one();
    });
    done.wait(false);
    logit_record record(device);
    std::vector<std::vector<float>> rows;
    for (std::uint32_t start = 0; start < 21; start += 7) {
      step_batch batch;
      batch.slices.push_back(slice_of(0, tokens, start, 7, {0, 1}));
      want_all(batch.slices[0]);
      record.expect(batch);
      run_step(device, std::move(batch));
    }
    for (std::uint32_t i = 0; i < 21; ++i) rows.push_back(record.at(0, i));
    return rows;
  };
  CHECK(first_difference(logits_after(std::byte{0}), logits_after(std::byte{0xFF})) == -1);
}

TEST_CASE("cpu device: sampled tokens and log-probabilities do not depend on the batch",
          "[gpu][independence]") {
  const auto model = load_tiny(shape_of(3));
  const auto sample_in = [&](std::uint32_t company, std::uint32_t threads) {
    cpu_backend device(model, device_options(threads, 70));
    auto tokens = random_tokens(5, 30, model->config.vocab);
    std::vector<scored_token> drawn;
    for (std::uint32_t i = 0; i < 20; ++i) {
      step_batch batch;
      for (std::uint32_t c = 0; c < company; ++c) {
        const auto other = random_tokens(c + 99 * i, 3, model->config.vocab);
        batch.slices.push_back(slice_of(c, other, 0, 3, {4 + c}));
        batch.slices.back().sample = true;
        batch.slices.back().decode.edit().sampling.seed = c;
      }
      const std::uint32_t start = i == 0 ? 0 : 29 + i;
      const std::uint32_t count = i == 0 ? 30 : 1;
      batch.slices.push_back(slice_of(subject, tokens, start, count, {0, 1, 2, 3}));
      sequence_slice& s = batch.slices.back();
      s.sample = true;
      s.decode.edit().top_logprobs = 3;
      s.decode.edit().sampling.temperature = 0.9f;
      s.decode.edit().sampling.top_p = 0.95f;
      s.decode.edit().sampling.seed = 1234;
      auto result = run_step(device, std::move(batch));
      drawn.push_back(*result.slices.back().sampled);
      tokens.push_back(drawn.back().token);
    }
    return drawn;
  };
  const auto alone = sample_in(0, 1);
  CHECK(alone == sample_in(3, 2));
  CHECK(alone == sample_in(31, 3));
  CHECK(alone == sample_in(63, 2));
}
