// Generated tokens as text, incrementally.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/tokenizer.h"

namespace trireme {

/// A text ends before the first of these.
struct TextEnds {
  std::vector<std::string> texts;
  std::vector<std::int32_t> tokens;
  bool document = false;  // the end of a document
};

class GeneratedText {
 public:
  /// The continuation of `prompt`.
  GeneratedText(const Tokenizer& tokenizer, std::vector<std::int32_t> prompt, TextEnds ends);

  /// `generated`: all tokens so far. Returns false once the text has ended.
  bool update(std::span<const std::int32_t> generated);
  /// The prompt and its continuation.
  const std::string& text() const { return text_; }
  std::size_t prompt_bytes() const { return prompt_bytes_; }
  /// Bytes of text() that later tokens cannot change: without an unfinished character, or a possible
  /// beginning of a stop.
  std::size_t settled() const;

 private:
  bool cut_at_text();
  /// The tokens before the end of a document, or before a token that ends the text.
  std::span<const std::int32_t> before_end(std::span<const std::int32_t> generated) const;

  const Tokenizer& tokenizer_;
  const std::vector<std::int32_t> prompt_;
  const TextEnds ends_;
  std::size_t prompt_bytes_;
  std::size_t held_back_ = 4;  // bytes
  std::string text_;
};

}  // namespace trireme
