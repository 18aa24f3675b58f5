#include "gpu/model/text/tokenizer.hpp"

#include <algorithm>

#include "config/bytes/utf8.hpp"
#include "gpu/model/gguf/gguf_reader.hpp"
#include "gpu/model/text/tokenization.hpp"
#include "gpu/model/text/tokenizer_tables.hpp"

namespace troupe::gpu {
namespace {

// The file format's token types.
enum token_kind : std::int64_t {
  kind_normal = 1,
  kind_unknown = 2,
  kind_control = 3,
  kind_user_defined = 4,
  kind_byte = 6
};

/// Four million; the largest vocabularies have 300,000.
constexpr std::size_t merges_max = 1u << 22;
/// Code points above this stand for no byte.
constexpr char32_t byte_letters_end = 324;

/// GPT-2 writes each byte as a printable letter: most of Latin-1 as itself, the others as U+0100
/// and up. Answers the byte of every letter, -1 for a code point that is none.
const std::array<std::int16_t, byte_letters_end>& bytes_of_letters() {
  // The same table as bytes_to_unicode() in GPT-2's encoder.py, read backwards.
  static const auto table = [] {
    std::array<std::int16_t, byte_letters_end> out{};
    out.fill(-1);
    char32_t next_letter = 256;
    for (std::int16_t byte = 0; byte < 256; ++byte) {
      const bool itself =
          (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
      out[itself ? static_cast<std::size_t>(byte) : next_letter++] = byte;
    }
    return out;
  }();
  return table;
}

/// The bytes that a normal token's letters stand for; false when a letter stands for none.
bool bytes_from_letters(std::string_view letters, std::string& out) {
  while (!letters.empty()) {
    const auto step = next_utf8(letters);
    if (step.state != utf8_state::whole || step.code >= byte_letters_end) return false;
    const auto byte = bytes_of_letters()[step.code];
    if (byte < 0) return false;
    out += static_cast<char>(byte);
    letters.remove_prefix(step.length);
  }
  return true;
}

/// Bytes that ordinary text cannot do without. A vocabulary may leave out others (control
/// characters, bytes that open rare planes); text with those loses them, as in the tokenizers these
/// files come from.
bool must_have_token(unsigned byte) {
  return byte == '\n' || (byte >= 0x20 && byte <= 0x7E) || (byte >= 0x80 && byte <= 0xBF);
}

}  // namespace

void tokenizer::impl::read_tokens(const gguf_file& file) {
  const auto& texts = file.get_strings("tokenizer.ggml.tokens");
  const auto* kinds = file.find_ints("tokenizer.ggml.token_type");
  // Integers of any width and sign are taken for INT32: the reader widens them, and a value that is
  // no kind is refused below by token and number.
  if (kinds != nullptr && kinds->size() != texts.size()) {
    file.fail("tokenizer.ggml.token_type: " + std::to_string(kinds->size()) +
              " elements, expected one for each of the " + std::to_string(texts.size()) +
              " tokens");
  }
  byte_tokens.fill(no_token);
  bytes.resize(texts.size());
  special.resize(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto id = static_cast<token_id>(i);
    const auto kind = kinds == nullptr ? std::int64_t{kind_normal} : (*kinds)[i];
    if (kind < kind_normal || kind > kind_byte) {
      file.fail("tokenizer.ggml.token_type: token " + std::to_string(i) + " has type " +
                std::to_string(kind) + ", expected 1 to 6");
    }
    const auto what = "tokenizer.ggml.tokens: token " + std::to_string(i) + " " + shown(texts[i]);
    // An empty token would match everywhere and never move on.
    if (texts[i].empty()) file.fail(what + " is empty");
    if (kind == kind_normal) {
      if (!bytes_from_letters(texts[i], bytes[i]))
        file.fail(what + " has a letter that stands for no byte");
      if (bytes[i].size() == 1) byte_tokens[static_cast<unsigned char>(bytes[i][0])] = id;
      continue;
    }
    bytes[i] = texts[i];
    special[i] = kind == kind_control || kind == kind_unknown;
    if (kind == kind_control || kind == kind_user_defined) {
      specials.emplace_back(texts[i], id);
      special_starts.set(static_cast<unsigned char>(texts[i][0]));
    }
  }
  std::sort(specials.begin(), specials.end());
  // Filled only for the rules that use it: it is as large as the vocabulary.
  if (rule.whole_pieces) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const bool normal = kinds == nullptr || (*kinds)[i] == kind_normal;
      if (normal) whole.emplace(bytes[i], static_cast<token_id>(i));
    }
  }
  for (const auto& text : bytes) longest = std::max(longest, text.size());
  for (unsigned byte = 0; byte < 256; ++byte) {
    loses_bytes = loses_bytes || byte_tokens[byte] == no_token;
    if (must_have_token(byte) && byte_tokens[byte] == no_token) {
      file.fail("tokenizer.ggml.tokens: no token for the byte " + std::to_string(byte));
    }
  }
}

void tokenizer::impl::read_merges(const gguf_file& file) {
  const auto& texts = file.get_strings("tokenizer.ggml.tokens");
  const auto& lines = file.get_strings("tokenizer.ggml.merges");
  if (lines.size() > merges_max) {
    file.fail("tokenizer.ggml.merges: " + std::to_string(lines.size()) + " merges, at most " +
              std::to_string(merges_max));
  }
  // By their letters, as merges spell them, not by the bytes they stand for.
  std::unordered_map<std::string_view, token_id> ids;
  ids.reserve(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto [first, added] = ids.emplace(texts[i], static_cast<token_id>(i));
    if (!added) {
      file.fail("tokenizer.ggml.tokens: token " + std::to_string(i) + " " + shown(texts[i]) +
                " repeats token " + std::to_string(first->second));
    }
  }
  const auto id_of = [&](std::string_view text, std::size_t line) {
    const auto found = ids.find(text);
    if (found == ids.end()) {
      file.fail("tokenizer.ggml.merges: merge " + std::to_string(line) + " " + shown(lines[line]) +
                " needs " + shown(text) + ", which is not a token");
    }
    return found->second;
  };
  merges = byte_pair_merges(lines.size());
  std::string joined;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string_view line = lines[i];
    const auto space = line.find(' ');
    if (space == line.npos || space == 0 || space + 1 == line.size() ||
        line.find(' ', space + 1) != line.npos) {
      file.fail("tokenizer.ggml.merges: merge " + std::to_string(i) + " " + shown(line) +
                " is not two parts and a space");
    }
    joined.assign(line.substr(0, space)).append(line.substr(space + 1));
    const auto left = id_of(line.substr(0, space), i);
    const auto right = id_of(line.substr(space + 1), i);
    merges.add(left, right, id_of(joined, i), static_cast<std::uint32_t>(i));
  }
}

void tokenizer::impl::read_special_ids(const gguf_file& file) {
  const auto id_in = [&](const char* key) {
    const auto value = file.find_uint(key);
    if (!value) return no_token;
    if (*value >= bytes.size()) {
      file.fail(std::string(key) + ": " + std::to_string(*value) + ", expected less than the " +
                std::to_string(bytes.size()) + " tokens");
    }
    return static_cast<token_id>(*value);
  };
  bos = id_in("tokenizer.ggml.bos_token_id");
  add_bos =
      file.find_bool("tokenizer.ggml.add_bos_token").value_or(rule.adds_bos && bos != no_token);
  if (add_bos && bos == no_token)
    file.fail("tokenizer.ggml.bos_token_id: missing, but add_bos_token is true");
  // Files name one or two ends, while chat models stop at others as well; the texts below are those
  // that llama.cpp takes for ends when they are control tokens.
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
    if (const auto id = id_in(key); id != no_token) end_tokens.push_back(id);
  }
  for (const std::string_view text : {"<|endoftext|>", "<|im_end|>", "<|eot_id|>", "<|end|>"}) {
    const auto found =
        std::lower_bound(specials.begin(), specials.end(), text,
                         [](const auto& entry, std::string_view key) { return entry.first < key; });
    if (found != specials.end() && found->first == text &&
        special[static_cast<std::size_t>(found->second)]) {
      end_tokens.push_back(found->second);
    }
  }
  std::sort(end_tokens.begin(), end_tokens.end());
  end_tokens.erase(std::unique(end_tokens.begin(), end_tokens.end()), end_tokens.end());
}

/// The longest special token that `text` begins with. `specials` is sorted, so those sharing the
/// first n bytes of the text are a range that narrows byte by byte.
token_id tokenizer::impl::longest_special(std::string_view text) const {
  auto low = specials.begin(), high = specials.end();
  token_id best = no_token;
  for (std::size_t depth = 0; depth < text.size(); ++depth) {
    const auto wanted = static_cast<unsigned char>(text[depth]);
    const auto byte_at = [depth](const auto& entry) {  // -1: the text ends here, which sorts first
      return depth < entry.first.size() ? static_cast<unsigned char>(entry.first[depth]) : -1;
    };
    low =
        std::partition_point(low, high, [&](const auto& entry) { return byte_at(entry) < wanted; });
    high = std::partition_point(low, high,
                                [&](const auto& entry) { return byte_at(entry) <= wanted; });
    if (low == high) break;
    if (low->first.size() == depth + 1) best = low->second;
  }
  return best;
}

tokenizer::tokenizer() : impl_(std::make_unique<impl>()) {}
tokenizer::tokenizer(tokenizer&&) noexcept = default;
tokenizer::~tokenizer() = default;

tokenizer tokenizer::from_gguf(const gguf_file& file) {
  tokenizer out;
  const auto& model = file.get_string("tokenizer.ggml.model");
  if (model != "gpt2")
    file.fail("tokenizer.ggml.model: " + shown(model) + ", supported is \"gpt2\"");
  const auto& pre = file.get_string("tokenizer.ggml.pre");
  const auto* rule = find_pre_tokenizer(pre);
  if (rule == nullptr) {
    file.fail("tokenizer.ggml.pre: " + shown(pre) + ", supported are " +
              std::string(known_pre_tokenizers()));
  }
  out.impl_->rule = *rule;
  out.impl_->read_tokens(file);
  out.impl_->read_merges(file);
  out.impl_->read_special_ids(file);
  return out;
}

std::vector<token_id> tokenizer::encode(std::string_view text, bool parse_special) const {
  return tokenization(*this, std::string(text), parse_special).finish();
}

std::vector<token_id> tokenizer::encode(const std::vector<template_span>& spans) const {
  return tokenization(*this, spans).finish();
}

const std::string& tokenizer::bytes(token_id id) const {
  return impl_->bytes.at(static_cast<std::size_t>(id));
}
bool tokenizer::is_special(token_id id) const {
  return impl_->special.at(static_cast<std::size_t>(id));
}
std::size_t tokenizer::impl::kept(std::string_view text) const {
  if (!loses_bytes) return text.size();
  std::size_t out = 0;
  for (const char c : text) out += byte_tokens[static_cast<unsigned char>(c)] != no_token;
  return out;
}

std::size_t tokenizer::kept_bytes(std::string_view text) const {
  return impl_->kept(text);
}
std::size_t tokenizer::longest_token() const {
  return impl_->longest;
}
std::uint32_t tokenizer::vocab_size() const {
  return static_cast<std::uint32_t>(impl_->bytes.size());
}
bool tokenizer::add_bos() const {
  return impl_->add_bos;
}
token_id tokenizer::bos() const {
  return impl_->bos;
}
const std::vector<token_id>& tokenizer::end_tokens() const {
  return impl_->end_tokens;
}

detokenizer::detokenizer(const tokenizer& vocabulary, bool skip_special)
    : vocabulary_(&vocabulary), skip_special_(skip_special) {}

std::string detokenizer::push(token_id id) {
  if (skip_special_ && vocabulary_->is_special(id)) return {};
  held_ += vocabulary_->bytes(id);
  std::string out;
  std::string_view left = held_;
  while (!left.empty()) {
    // A character may be split over several tokens: its start waits for the rest.
    const auto step = next_utf8(left);
    if (step.state == utf8_state::incomplete) break;
    out += step.state == utf8_state::whole ? left.substr(0, step.length) : replacement_character;
    left.remove_prefix(step.length);
  }
  held_.assign(left.data(), left.size());
  return out;
}

std::string detokenizer::flush() {
  if (held_.empty()) return {};
  held_.clear();
  return std::string(replacement_character);
}

}  // namespace troupe::gpu
