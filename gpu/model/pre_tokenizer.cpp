#include "gpu/model/pre_tokenizer.hpp"

#include <string>

#include "gpu/model/pre_tokenizer_classes.hpp"

namespace troupe::gpu {
namespace {

bool is_line_end(char c) {
  return c == '\r' || c == '\n';
}

/// The length of one of 's 't 're 've 'm 'll 'd at `at`, or 0. Case-blind, the long s (U+017F) is
/// an s too, as Unicode folds it; no other letter folds to one of these.
std::size_t contraction(std::string_view text, std::size_t at, bool any_case) {
  if (text[at] != '\'') return 0;
  const auto rest = text.substr(at);
  for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    if (rest.size() < ending.size()) continue;
    std::size_t same = 1;
    while (same < ending.size() &&
           (rest[same] == ending[same] ||
            (any_case && rest[same] == static_cast<char>(ending[same] - 'a' + 'A'))))
      ++same;
    if (same == ending.size()) return same;
  }
  constexpr std::string_view long_s = "'\xC5\xBF";
  return any_case && rest.starts_with(long_s) ? long_s.size() : 0;
}

struct blank_run {
  std::size_t end = 0;         ///< of the run
  std::size_t last = 0;        ///< where its last character begins
  std::size_t after_line = 0;  ///< behind its last line end; 0 when it has none
};

/// The run of white space that starts at `at`, which is white space.
blank_run blanks_at(std::string_view text, std::size_t at) {
  blank_run out{at, at, 0};
  while (out.end < text.size()) {
    const auto next = look_at(text, out.end);
    if (next.kind != char_class::space) break;
    out.last = out.end;
    if (is_line_end(text[out.end])) out.after_line = out.end + 1;
    out.end += next.length;
  }
  return out;
}

/// \s+(?!\S)|\s+ : all of it at the end of the text, else all but the last character (which may
/// lead the next piece), else that one character.
std::size_t blank_piece_end(std::string_view text, std::size_t at, const blank_run& run) {
  return run.end == text.size() || run.last == at ? run.end : run.last;
}

/// GPT-2's rule, one piece at a time:
///   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
std::size_t gpt2_piece_end(std::string_view text, std::size_t at) {
  if (const auto length = contraction(text, at, false); length != 0) return at + length;
  const auto first = look_at(text, at);
  if (first.kind != char_class::space) return run_end(text, at, first.kind);
  if (text[at] == ' ' && at + 1 < text.size()) {
    const auto second = look_at(text, at + 1);
    if (second.kind != char_class::space) return run_end(text, at + 1, second.kind);
  }
  return blank_piece_end(text, at, blanks_at(text, at));
}

void gpt2_pieces(std::string_view text, std::size_t base, std::vector<std::size_t>& ends) {
  for (std::size_t at = 0; at < text.size();) {
    at = gpt2_piece_end(text, at);
    ends.push_back(base + at);
  }
}

void gpt2(std::string_view text, std::vector<std::size_t>& ends) {
  gpt2_pieces(text, 0, ends);
}

/// Every numeric character is a piece of its own; what lies between goes through GPT-2's rule as if
/// it stood alone.
void smollm(std::string_view text, std::vector<std::size_t>& ends) {
  std::size_t start = 0, at = 0;
  while (at < text.size()) {
    const auto next = look_at(text, at);
    if (next.kind == char_class::number) {
      gpt2_pieces(text.substr(start, at - start), start, ends);
      ends.push_back(at + next.length);
      start = at + next.length;
    }
    at += next.length;
  }
  gpt2_pieces(text.substr(start), start, ends);
}

/// Llama 3's rule, and with `digits` = 1 Qwen 2's, one piece at a time:
///   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}
///   | ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
std::size_t llama3_piece_end(std::string_view text, std::size_t at, int digits) {
  if (const auto length = contraction(text, at, true); length != 0) return at + length;
  const auto first = look_at(text, at);
  const auto second_at = at + first.length;
  if (first.kind == char_class::letter) return run_end(text, at, char_class::letter);
  if (first.kind == char_class::number) {
    auto end = second_at;
    for (int taken = 1; taken < digits && end < text.size(); ++taken) {
      const auto next = look_at(text, end);
      if (next.kind != char_class::number) break;
      end += next.length;
    }
    return end;
  }
  const auto second =
      second_at < text.size() ? look_at(text, second_at) : scanned_char{char_class::space, 0};
  if (second.kind == char_class::letter && !is_line_end(text[at]))
    return run_end(text, second_at, char_class::letter);
  if (first.kind == char_class::other || (text[at] == ' ' && second.kind == char_class::other)) {
    auto end = run_end(text, second_at, char_class::other);
    while (end < text.size() && is_line_end(text[end])) ++end;
    return end;
  }
  const auto run = blanks_at(text, at);
  return run.after_line != 0 ? run.after_line : blank_piece_end(text, at, run);
}

template <int Digits>
void llama3(std::string_view text, std::vector<std::size_t>& ends) {
  for (std::size_t at = 0; at < text.size();) {
    at = llama3_piece_end(text, at, Digits);
    ends.push_back(at);
  }
}

struct named_rule {
  std::string_view name;
  pre_tokenizer rule;
};

// Only names whose rule is exactly this one; a near miss would answer other ids without a word.
constexpr named_rule rules[] = {
    {"deepseek-r1-qwen", {llama3<1>, false, false}},
    {"gpt-2", {gpt2, false, false}},
    {"llama-bpe", {llama3<3>, true, true}},
    {"llama-v3", {llama3<3>, true, true}},
    {"llama3", {llama3<3>, true, true}},
    {"qwen2", {llama3<1>, false, false}},
    {"smollm", {smollm, false, false}},
};

}  // namespace

const pre_tokenizer* find_pre_tokenizer(std::string_view name) {
  for (const auto& known : rules) {
    if (known.name == name) return &known.rule;
  }
  return nullptr;
}

std::string_view known_pre_tokenizers() {
  static const auto names = [] {
    std::string out;
    for (const auto& known : rules) {
      if (!out.empty()) out += ", ";
      out.append("\"").append(known.name).append("\"");
    }
    return out;
  }();
  return names;
}

}  // namespace troupe::gpu
