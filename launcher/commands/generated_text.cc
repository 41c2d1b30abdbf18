#include "launcher/commands/generated_text.h"

#include <algorithm>

namespace trireme {

GeneratedText::GeneratedText(const Tokenizer& tokenizer, std::vector<std::int32_t> prompt,
                             std::vector<std::string> stops, bool stops_at_document)
    : tokenizer_(tokenizer),
      prompt_(std::move(prompt)),
      stops_(std::move(stops)),
      stops_at_document_(stops_at_document),
      text_(tokenizer.decode(prompt_)) {
  prompt_bytes_ = text_.size();
  for (const std::string& stop : stops_) held_back_ = std::max(held_back_, stop.size());
}

bool GeneratedText::update(std::span<const std::int32_t> generated) {
  const std::vector<std::int32_t> separator = tokenizer_.document_separator();
  bool ended = false;
  if (stops_at_document_) {
    const auto end = std::search(generated.begin(), generated.end(), separator.begin(), separator.end());
    ended = end != generated.end();
    generated = generated.first(static_cast<std::size_t>(end - generated.begin()));
  }
  // Decoded with the prompt, because the first subword may decode differently without it.
  std::vector<std::int32_t> tokens = prompt_;
  tokens.insert(tokens.end(), generated.begin(), generated.end());
  text_ = tokenizer_.decode(tokens);
  if (ended) held_back_ = 0;
  return !cut_at_stop() && !ended;
}

std::size_t GeneratedText::settled() const {
  return text_.size() - std::min(text_.size(), held_back_);
}

bool GeneratedText::cut_at_stop() {
  std::size_t end = std::string::npos;
  for (const std::string& stop : stops_) end = std::min(end, text_.find(stop, prompt_bytes_));
  if (end == std::string::npos) return false;
  text_.resize(end);
  return true;
}

}  // namespace trireme
