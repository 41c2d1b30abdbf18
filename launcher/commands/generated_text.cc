#include "launcher/commands/generated_text.h"

#include <algorithm>

namespace trireme {

GeneratedText::GeneratedText(const Tokenizer& tokenizer, std::vector<std::int32_t> prompt, TextEnds ends)
    : tokenizer_(tokenizer),
      prompt_(std::move(prompt)),
      ends_(std::move(ends)),
      text_(tokenizer.decode(prompt_)) {
  prompt_bytes_ = text_.size();
  for (const std::string& text : ends_.texts) held_back_ = std::max(held_back_, text.size());
}

std::span<const std::int32_t> GeneratedText::before_end(std::span<const std::int32_t> generated) const {
  if (ends_.document) {
    const std::vector<std::int32_t> separator = tokenizer_.document_separator();
    const auto end = std::search(generated.begin(), generated.end(), separator.begin(), separator.end());
    generated = generated.first(static_cast<std::size_t>(end - generated.begin()));
  }
  const auto end = std::ranges::find_first_of(generated, ends_.tokens);
  return generated.first(static_cast<std::size_t>(end - generated.begin()));
}

bool GeneratedText::update(std::span<const std::int32_t> generated) {
  const std::span<const std::int32_t> kept = before_end(generated);
  const bool ended = kept.size() < generated.size();
  // Decoded with the prompt, because the first subword may decode differently without it.
  std::vector<std::int32_t> tokens = prompt_;
  tokens.insert(tokens.end(), kept.begin(), kept.end());
  text_ = tokenizer_.decode(tokens);
  if (ended) held_back_ = 0;
  return !cut_at_text() && !ended;
}

std::size_t GeneratedText::settled() const {
  return text_.size() - std::min(text_.size(), held_back_);
}

bool GeneratedText::cut_at_text() {
  std::size_t end = std::string::npos;
  for (const std::string& text : ends_.texts) end = std::min(end, text_.find(text, prompt_bytes_));
  if (end == std::string::npos) return false;
  text_.resize(end);
  return true;
}

}  // namespace trireme
