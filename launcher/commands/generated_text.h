// Generated tokens as text, incrementally.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/tokenizer.h"

namespace trireme {

class GeneratedText {
 public:
  /// The continuation of `prompt`. The text ends before the first of `stops`, and with `stops_at_document` at
  /// the end of a document.
  GeneratedText(const Tokenizer& tokenizer, std::vector<std::int32_t> prompt, std::vector<std::string> stops,
                bool stops_at_document);

  /// `generated`: all tokens so far. Returns false once the text has ended.
  bool update(std::span<const std::int32_t> generated);
  /// The prompt and its continuation.
  const std::string& text() const { return text_; }
  /// Bytes of text() that later tokens cannot change: without an unfinished character, or a possible
  /// beginning of a stop.
  std::size_t settled() const;

 private:
  bool cut_at_stop();

  const Tokenizer& tokenizer_;
  const std::vector<std::int32_t> prompt_;
  const std::vector<std::string> stops_;
  const bool stops_at_document_;
  std::size_t prompt_bytes_;
  std::size_t held_back_ = 4;  // bytes
  std::string text_;
};

}  // namespace trireme
