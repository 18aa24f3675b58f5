// What the outside asks of the runtime and what it gets back: plain values and two small
// interfaces. The net, an embedding program and the tests meet the actors here and see no actor
// type.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "actors/api/ids.hpp"
#include "actors/api/outcome.hpp"
#include "config/decode_options.hpp"

namespace troupe::core {

struct chat_message {
  std::string role;  ///< system, user, assistant, tool
  std::string content;
  bool operator==(const chat_message&) const = default;
};

/// 0 = none. Relative to the moment the request is submitted.
struct deadlines_ms {
  std::uint64_t queue = 0;
  std::uint64_t first_token = 0;
  std::uint64_t total = 0;
  bool operator==(const deadlines_ms&) const = default;
};

/// One choice of one API request, already validated against the field table.
struct generation_request {
  std::variant<std::string, std::vector<token_id>, std::vector<chat_message>> prompt;
  bool parse_special = true;          ///< string prompts: special-token text becomes the token
  bool add_special_tokens = true;     ///< string prompts: bos, when the model wants one
  bool add_generation_prompt = true;  ///< chat prompts
  decode_options decode;
  std::vector<std::string> stop;
  bool include_stop_in_output = false;
  stop_boundary boundary = stop_boundary::none;
  std::optional<repetition_stop> repetition;
  std::vector<token_id> allowed_token_ids;  ///< no other token is drawn; empty: all
  std::vector<std::string> bad_words;       ///< never in the answer, as vLLM tokenizes them
  bool skip_special_tokens = true;
  bool echo = false;  ///< deliver the prompt's text (and scores, with top_logprobs >= 0) first
  std::int32_t priority = 0;                ///< lower is earlier
  deadlines_ms deadlines;                   ///< 0 = the configured default
  std::optional<std::string> cache_salt;    ///< prefixes are shared only among equal salts
  std::optional<on_disconnect> disconnect;  ///< none: the configured default
  std::string label;                        ///< the object's id, for the log line only
  bool operator==(const generation_request&) const = default;
};

struct token_piece {
  token_id token = -1;
  std::string bytes;             ///< raw bytes of the token
  std::optional<float> logprob;  ///< none for the prompt's first token
  std::vector<std::pair<token_id, float>> top;
  bool operator==(const token_piece&) const = default;
};

/// A piece of an answer. Text is whole UTF-8 characters; nothing of a possible stop string is in
/// it.
struct generation_delta {
  std::string text;
  std::vector<token_piece> tokens;      ///< filled when log-probabilities were asked for
  bool prompt = false;                  ///< the echoed prompt rather than generated text
  std::uint32_t completion_tokens = 0;  ///< sampled so far, this delta included
  bool operator==(const generation_delta&) const = default;
};

struct token_usage {
  std::uint32_t prompt = 0;
  std::uint32_t cached = 0;
  std::uint32_t completion = 0;  ///< every sampled token, the end token included
  bool operator==(const token_usage&) const = default;
};

/// Durations of one request in microseconds.
struct request_times {
  std::uint64_t queue_us = 0;
  std::uint64_t first_token_us = 0;  ///< from submit; 0 when there was none
  std::uint64_t prefill_us = 0;      ///< first planned to first token
  std::uint64_t decode_us = 0;       ///< first to last token
  std::uint64_t total_us = 0;
  bool operator==(const request_times&) const = default;
};

/// The one terminal event.
struct generation_end {
  end_reason reason = end_reason::end_token;
  refusal why_refused = refusal::none;
  std::string message;  ///< for errors: what, value, limit
  std::optional<std::string> stop_string;
  std::optional<token_id> stop_token;
  token_usage usage;
  request_times times;
  generation_delta last;  ///< text and tokens not yet delivered; comes before the end
  bool operator==(const generation_end&) const = default;
};

/// Receives one generation's events, from an actor's thread: it must hand over and return. After
/// accepted() come deltas, at most one outstanding: the next is only delivered after
/// generation::delivered(). end() comes once, always, and last; it may come without accepted() and
/// while a delta is outstanding. Dropping it ends the generation as client_gone, also while it owes
/// a delivered().
class generation_sink {
 public:
  generation_sink() = default;
  generation_sink(const generation_sink&) = delete;
  generation_sink& operator=(const generation_sink&) = delete;
  virtual ~generation_sink() {
    if (dropped_) dropped_();
  }
  virtual void accepted(std::uint32_t prompt_tokens) = 0;
  virtual void delta(generation_delta) = 0;
  virtual void end(generation_end) = 0;

  /// For the engine, in submit().
  void when_dropped(std::function<void()> tell) { dropped_ = std::move(tell); }

 private:
  std::function<void()> dropped_;
};

/// The caller's end of one generation. Thread-safe; every call is a message and may come late,
/// twice or never. Dropping the handle does not end the generation; dropping the sink does.
class generation {
 public:
  virtual ~generation() = default;
  virtual request_id id() const = 0;
  virtual life_phase phase() const = 0;  ///< where the engine has it now
  virtual void delivered() = 0;          ///< the last delta is out; send the next
  /// `seen_at`: when the cause was seen on the caller's clock (release latency counts from there).
  virtual void cancel(end_reason why, time_us seen_at) = 0;
};

struct model_card {
  std::string name;
  std::uint32_t context = 0;        ///< effective context in tokens: what model and pool both hold
  std::uint32_t model_context = 0;  ///< the model's own, whatever the pool holds
  std::int64_t created = 0;         ///< Unix seconds
  std::uint32_t vocab = 0;
  std::string bos, eos, chat_template;
};

/// Liveness as health and readiness need it.
struct engine_health {
  bool failed = false;  ///< an actor of the engine died
  bool draining = false;
  std::uint32_t running = 0, waiting = 0;
  std::uint64_t stalled_us = 0;  ///< time since the last retired step while work is waiting; else 0
};

class engine_probe;  ///< kv_audit.hpp

/// One of several answers to a prompt.
struct answer_choice {
  std::uint64_t seed = 0;
  std::weak_ptr<generation_sink> sink;
};

class generation_engine {
 public:
  virtual ~generation_engine() = default;
  /// Never blocks, never throws for user mistakes: those arrive as end(refused). The engine keeps
  /// only a weak reference to the sink.
  virtual std::shared_ptr<generation> submit(generation_request,
                                             std::weak_ptr<generation_sink>) = 0;
  /// The same request once for each choice, with that seed: each has its own id, sink and end, and
  /// the same answer as if it had been submitted alone. An engine that can reads and computes the
  /// prompt once for all of them; this default does not.
  virtual std::vector<std::shared_ptr<generation>> submit_choices(
      generation_request request, std::vector<answer_choice> choices) {
    std::vector<std::shared_ptr<generation>> handles;
    for (auto& choice : choices) {
      request.decode.sampling.seed = choice.seed;
      handles.push_back(submit(request, std::move(choice.sink)));
    }
    return handles;
  }
  virtual const model_card& card() const = 0;
  virtual engine_health health() const = 0;
  /// Synchronous text tools. encode throws std::invalid_argument for a chat the template refuses.
  virtual std::vector<token_id> encode(const generation_request&) const = 0;
  virtual std::string decode(const std::vector<token_id>&) const = 0;
  virtual std::string token_bytes(token_id) const = 0;
  virtual time_us now() const = 0;
  /// For the debugging endpoints; lives as long as the engine. Null: there is nothing to look into.
  virtual engine_probe* probe() { return nullptr; }
};

}  // namespace troupe::core
