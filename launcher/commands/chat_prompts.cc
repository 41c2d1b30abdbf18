#include "launcher/commands/chat_prompts.h"

#include "runtime/base/error.h"
#include "runtime/checkpoint/json_file.h"

namespace trireme {
namespace {

/// The text without white space around it, unless there is nothing else.
std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return text;
  return text.substr(first, text.find_last_not_of(" \t\r\n") + 1 - first);
}

}  // namespace

ChatPrompts render_prompts(const ChatRenderer::Request& request, const Tokenizer& tokenizer) {
  ChatRenderer renderer(request);
  const ChatRenderer::Header& header = renderer.header();
  check_prefixes(header, request.chat_template.folder, tokenizer);
  ChatPrompts prompts;
  for (const std::string& token : header.special_tokens) {
    const std::size_t count = tokenizer.encode_chat(token).size();
    TRIREME_CHECK(count == 1,
                  "the chat template of {} uses the special token {}, which the tokenizer does not have: it "
                  "becomes {} tokens of text. Give the folder of the chat model with --tokenizer",
                  request.chat_template.folder, token, count);
  }
  for (const std::string& token : header.stops) {
    // eos_token may be a token that neither the template nor the vocabulary has.
    if (const auto ids = tokenizer.encode_chat(token); ids.size() == 1) prompts.end_tokens.push_back(ids[0]);
  }
  const std::string end = trimmed(header.end);
  if (!end.empty()) prompts.end_texts.push_back(end);
  while (const auto chat = renderer.next()) prompts.tokens.push_back(tokenizer.encode_chat(chat->text));
  return prompts;
}

std::vector<std::int32_t> end_ids_of(const HfExtras& extras) {
  std::vector<std::int32_t> ids;
  const auto add = [&](const nlohmann::json& json) {
    const auto found = json.find("eos_token_id");
    if (found == json.end()) return;
    for (const nlohmann::json& id : found->is_array() ? *found : nlohmann::json::array({*found})) {
      if (id.is_number_integer()) ids.push_back(id.get<std::int32_t>());
    }
  };
  add(extras.special_tokens);
  const auto generation = extras.files.find("generation_config.json");
  if (generation != extras.files.end()) add(parse_json(generation->second));
  return ids;
}

}  // namespace trireme
