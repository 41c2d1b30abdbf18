// Generated tokens as text, while they come.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/tokenizer.h"

namespace trireme {

class GeneratedText {
 public:
  /// What follows `prompt`. The text ends before the first of `stops`, and with `stops_at_document` where a
  /// document ends.
  GeneratedText(const Tokenizer& tokenizer, std::vector<std::int32_t> prompt, std::vector<std::string> stops,
                bool stops_at_document);

  /// Takes all tokens so far; false once the text has ended.
  bool update(std::span<const std::int32_t> generated);
  /// The prompt and what follows it.
  const std::string& text() const { return text_; }
  /// Bytes of text() that later tokens do not change: neither an unfinished character nor the beginning of a
  /// stop.
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
