#include "gpu/model/text/tokenization.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "gpu/model/text/tokenizer_tables.hpp"

namespace troupe::gpu {
namespace {

constexpr std::size_t text_bytes_max = 1u << 30;
// What the work costs, in units: measured so that 65,536 of them take about a millisecond whatever
// the text is: a slice is what a session does between two of its messages, a cancel among them.
constexpr std::size_t bytes_weighed_a_unit = 16;
constexpr std::size_t special_look_up = 8;
constexpr std::size_t spelled_symbol = 2;
constexpr std::size_t queued_merge = 5;

}  // namespace

tokenization::tokenization(const tokenizer& vocabulary, std::string text, bool parse_special)
    : tables_(vocabulary.impl_.get()), text_(std::move(text)) {
  if (parse_special) trusted_.push_back({0, text_.size()});
  begin();
}

tokenization::tokenization(const tokenizer& vocabulary, const std::vector<template_span>& spans)
    : tables_(vocabulary.impl_.get()) {
  std::size_t size = 0;
  for (const auto& span : spans) size += span.text.size();
  text_.reserve(size);
  for (const auto& span : spans) {
    if (span.trusted) trusted_.push_back({text_.size(), text_.size() + span.text.size()});
    text_ += span.text;
  }
  begin();
}

void tokenization::begin() {
  if (text_.size() > text_bytes_max) {
    throw std::length_error("text to encode has " + std::to_string(text_.size()) +
                            " bytes, at most " + std::to_string(text_bytes_max) + " are allowed");
  }
  // A vocabulary with a token for every byte keeps all of the text; counting it would cost a pass.
  if (tables_->loses_bytes) return;
  kept_ = text_.size();
  doing_ = doing::seeking;
}

bool tokenization::advance(std::size_t budget) {
  left_ = budget;
  while (left_ > 0 && doing_ != doing::nothing) {
    switch (doing_) {
      case doing::weighing:
        weigh();
        break;
      case doing::seeking:
        seek();
        break;
      case doing::cutting:
        cut();
        break;
      case doing::spelling:
        spell();
        break;
      case doing::merging:
        merge();
        break;
      case doing::listing:
        list();
        break;
      case doing::nothing:
        break;
    }
  }
  return doing_ == doing::nothing;
}

// Rounded up, so that a prompt far too long is refused before it is tokenized to its end.
std::size_t tokenization::at_least() const {
  return out_.size() + (kept_ + tables_->longest - 1) / tables_->longest;
}

std::vector<token_id> tokenization::finish() {
  advance(std::numeric_limits<std::size_t>::max());
  return take();
}

// Bytes without a token are no part of one.
void tokenization::weigh() {
  const auto rest = text_.size() - weighed_;
  const auto now = std::min(rest, std::min(left_, rest) * bytes_weighed_a_unit);
  kept_ += tables_->kept(std::string_view(text_).substr(weighed_, now));
  weighed_ += now;
  spend(now / bytes_weighed_a_unit);
  if (weighed_ == text_.size()) doing_ = doing::seeking;
}

// Up to the next special token, or the end, everything is plain text.
void tokenization::seek() {
  const std::string_view text = text_;
  for (; left_ > 0 && range_ < trusted_.size(); spend(1)) {
    const auto [begin, end] = trusted_[range_];
    at_ = std::max(at_, begin);
    if (at_ >= end) {
      ++range_;
      continue;
    }
    if (tables_->special_starts.test(static_cast<unsigned char>(text[at_]))) {
      spend(special_look_up);
      special_ = tables_->longest_special(text.substr(at_, end - at_));
      if (special_ != no_token) break;
    }
    ++at_;
  }
  if (special_ == no_token && range_ < trusted_.size()) return;
  // The pre-tokenizer must see where plain text ends: its rules look one character ahead, and a
  // special token is no character to them.
  plain_end_ = special_ == no_token ? text.size() : at_;
  // Scans begin anew behind each special token: pieces never reach across one.
  scan_ = piece_scan(start_);
  doing_ = doing::cutting;
}

void tokenization::end_plain_text() {
  if (special_ == no_token) {
    doing_ = doing::nothing;
    return;
  }
  const auto& spelled = tables_->bytes[static_cast<std::size_t>(special_)];
  out_.push_back(special_);
  kept_ -= tables_->kept(spelled);
  start_ = at_ = plain_end_ + spelled.size();
  special_ = no_token;
  doing_ = doing::seeking;
}

void tokenization::cut() {
  if (start_ == plain_end_) return end_plain_text();
  const auto plain = std::string_view(text_).substr(0, plain_end_);
  if (!scan_.advance(tables_->rule.pieces, plain, left_)) return;
  piece_end_ = scan_.end();
  const auto length = piece_end_ - start_;
  // Llama 3: a piece that is a token is that token, even where no chain of merges leads to it
  // (ignore_merges in its tokenizer.json).
  if (length <= tables_->longest && !tables_->whole.empty()) {
    const auto piece = plain.substr(start_, length);
    if (const auto found = tables_->whole.find(piece); found != tables_->whole.end()) {
      out_.push_back(found->second);
      kept_ -= tables_->kept(piece);
      start_ = piece_end_;
      scan_ = piece_scan(start_);
      return;
    }
  }
  tables_->merges.begin(work_, length);
  spelled_ = start_;
  doing_ = doing::spelling;
}

void tokenization::spell() {
  for (; left_ > 0 && spelled_ < piece_end_; spend(spelled_symbol)) {
    // A byte without a token is dropped here, as the tokenizers these files come from do.
    const auto id = tables_->byte_tokens[static_cast<unsigned char>(text_[spelled_++])];
    if (id != no_token) tables_->merges.push(work_, id);
  }
  if (spelled_ == piece_end_) doing_ = doing::merging;
}

void tokenization::merge() {
  const auto entries = left_ / queued_merge + 1;
  const auto over = tables_->merges.merge(work_, entries);
  spend((entries - over) * queued_merge);
  // Nothing left over: the queue may hold more, so this piece goes on in the next slice.
  if (over == 0) return;
  listed_ = work_.symbols.empty() ? byte_pair_merges::none : 0;
  start_ = piece_end_;
  doing_ = doing::listing;
}

// The symbols that are left are tokens.
void tokenization::list() {
  for (; left_ > 0 && listed_ != byte_pair_merges::none; spend(1)) {
    const auto& left = work_.symbols[listed_];
    out_.push_back(left.id);
    kept_ -= std::min(kept_, tables_->bytes[static_cast<std::size_t>(left.id)].size());
    listed_ = left.next;
  }
  if (listed_ != byte_pair_merges::none) return;
  scan_ = piece_scan(start_);
  doing_ = doing::cutting;
}

}  // namespace troupe::gpu
