// How text is cut into the pieces that byte-pair merges stay inside: the rules a model file can
// name, each a scanner over code points that can stop anywhere: linear, no recursion, no regex
// engine, any bytes accepted.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "gpu/model/text/pre_tokenizer_classes.hpp"

namespace troupe::gpu {

/// What the pieces are; each comment in the source has the regular expression.
enum class piece_rule : std::uint8_t { gpt2, smollm, llama3, qwen2 };

/// A rule, and what a file that names it leaves unsaid.
struct pre_tokenizer {
  piece_rule pieces = piece_rule::gpt2;
  /// A piece that is a token of the vocabulary is that token, whatever the merges would make of it.
  bool whole_pieces = false;
  /// What holds without `tokenizer.ggml.add_bos_token`.
  bool adds_bos = false;
};

/// Finds where the next piece ends, however long it is, in as many calls as the caller likes. A
/// value; between the calls for one piece the text must stay as it is.
class piece_scan {
 public:
  /// A piece begins at `at`, which must be inside the text.
  explicit piece_scan(std::size_t at = 0) : begin_(at), at_(at), last_(at) {}

  /// Looks at about `budget` characters and takes them off it. True: the piece ends at end().
  bool advance(piece_rule, std::string_view text, std::size_t& budget);
  std::size_t end() const { return at_; }

 private:
  enum class stage : std::uint8_t { fresh, run, line_ends, blanks, found };
  void start_gpt2(std::string_view text, bool lone_numbers);
  void start_llama3(std::string_view text, int digits);
  void run_from(std::size_t at, char_class kind, bool with_line_ends = false);
  void look_at_run(std::string_view text, std::size_t& budget);
  void look_at_blanks(piece_rule, std::string_view text, std::size_t& budget);

  std::size_t begin_;
  std::size_t at_;              // looked at up to here
  std::size_t last_;            // blanks: where the last one begins
  std::size_t after_line_ = 0;  // blanks: behind their last line end; 0 when they have none
  stage stage_ = stage::fresh;
  char_class kind_ = char_class::other;  // of the run
  bool with_line_ends_ = false;          // the run takes those that follow it
};

/// The rule called `name` in `tokenizer.ggml.pre`, or nullptr.
const pre_tokenizer* find_pre_tokenizer(std::string_view name);

/// The names find_pre_tokenizer knows, in quotes, for messages.
std::string_view known_pre_tokenizers();

}  // namespace troupe::gpu
