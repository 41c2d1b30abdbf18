// Prompts of `trireme sample --chat`: written by the model's chat template up to the beginning of an answer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/commands/chat_renderer.h"
#include "runtime/checkpoint/hf_extras.h"
#include "runtime/data/tokenizer.h"

namespace trireme {

struct ChatPrompts {
  std::vector<std::vector<std::int32_t>> tokens;  // of each prompt
  // The ends of an answer. Templates without special tokens have the text.
  std::vector<std::int32_t> end_tokens;
  std::vector<std::string> end_texts;
};

/// Renders `request.prompts`. Throws Error(kInvalidInput) if python3 or Jinja2 is missing, if there is no
/// chat template, if it raises, and for a special token that the tokenizer lacks.
ChatPrompts render_prompts(const ChatRenderer::Request& request, const Tokenizer& tokenizer);

/// The ids that end a text by config.json and generation_config.json: eos_token_id, one or several.
std::vector<std::int32_t> end_ids_of(const HfExtras& extras);

}  // namespace trireme
