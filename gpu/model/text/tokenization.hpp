// One text on its way to tokens, in slices of bounded work, also within a word without end. The
// result is that of tokenizer::encode(), which is all slices at once. A value that is moved along
// with its text; the tokenizer must outlive it. Never looks at a clock.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gpu/model/text/byte_pair_merges.hpp"
#include "gpu/model/text/pre_tokenizer.hpp"
#include "gpu/model/text/tokenizer.hpp"

namespace troupe::gpu {

class tokenization {
 public:
  /// See tokenizer::encode().
  tokenization(const tokenizer&, std::string text, bool parse_special);
  tokenization(const tokenizer&, const std::vector<template_span>&);

  /// Works for about `budget` units; 65,536 take about a millisecond. True: all is done.
  bool advance(std::size_t budget);
  /// So many tokens there will be at least: those that are certain, and no byte left is in a token
  /// longer than the longest. Never falls.
  std::size_t at_least() const;
  /// When all is done.
  std::vector<token_id> take() { return std::move(out_); }
  std::vector<token_id> finish();

 private:
  struct text_range {
    std::size_t begin = 0, end = 0;
  };
  enum class doing : std::uint8_t {
    weighing,
    seeking,
    cutting,
    spelling,
    merging,
    listing,
    nothing
  };
  void spend(std::size_t units) { left_ -= units < left_ ? units : left_; }
  void begin();
  void weigh();
  void seek();
  void cut();
  void end_plain_text();
  void spell();
  void merge();
  void list();

  const tokenizer::impl* tables_;
  std::string text_;
  // Where special tokens are looked for, in order; none reaches over a range's end.
  std::vector<text_range> trusted_;
  doing doing_ = doing::weighing;
  std::size_t left_ = 0;                   // of the budget
  std::size_t weighed_ = 0;                // bytes looked at for kept_
  std::size_t kept_ = 0;                   // bytes of the rest that have a token
  std::size_t range_ = 0, at_ = 0;         // where special tokens have been looked for
  token_id special_ = -1;                  // what comes behind the plain text; -1: the end
  std::size_t start_ = 0, plain_end_ = 0;  // the plain text not yet cut
  piece_scan scan_;
  std::size_t spelled_ = 0, piece_end_ = 0;
  std::uint32_t listed_ = 0;  // the next symbol of the piece to go to out_
  byte_pair_merges::scratch work_;
  std::vector<token_id> out_;
};

}  // namespace troupe::gpu
