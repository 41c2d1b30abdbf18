#include "runtime/checkpoint/hf_extras.h"

#include <algorithm>
#include <string_view>

#include "runtime/base/atomic_file.h"
#include "runtime/base/error.h"
#include "runtime/base/folder_file.h"
#include "runtime/base/regular_file.h"
#include "runtime/checkpoint/hf_model.h"
#include "runtime/checkpoint/json_file.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFiles[] = {"generation_config.json", "tokenizer_config.json",
                                       "special_tokens_map.json", "chat_template.json",
                                       "chat_template.jinja"};
constexpr const char* kContextKey = "max_position_embeddings";
constexpr const char* kTokenKeys[] = {"bos_token_id", "eos_token_id", "pad_token_id"};
constexpr std::size_t kMaxBytes = std::size_t{4} << 20;  // of all, as part of a manifest

bool is_token_id(const nlohmann::json& value) {
  return value.is_number_integer();
}

/// Throws Error(kInvalidInput) for extras that do not fit into a manifest, or are not UTF-8.
void check_can_be_kept(const HfExtras& extras, const fs::path& folder) {
  std::size_t bytes = 0;
  try {
    bytes = to_json(extras).dump().size();
  } catch (const nlohmann::json::exception&) {
    throw Error(ErrorCode::kInvalidInput, "{}: its chat template is not UTF-8", folder.string());
  }
  TRIREME_CHECK(
      bytes <= kMaxBytes,
      "{}: the files that describe tokens, generation and the chat template have {} bytes, above the "
      "{} that a checkpoint keeps: remove those that are not needed",
      folder.string(), bytes, kMaxBytes);
}

}  // namespace

HfExtras read_hf_extras(const fs::path& folder) {
  HfExtras extras;
  const nlohmann::json config =
      read_json_file(hf_network_folder(folder) / kHfConfigFile, "model description");
  for (const char* key : kTokenKeys) {
    const auto found = config.find(key);
    if (found == config.end() || found->is_null()) continue;
    TRIREME_CHECK(is_token_id(*found) || (found->is_array() && std::ranges::all_of(*found, is_token_id)),
                  "{}: {} is {:.100}, not a token id or a list of token ids",
                  (folder / kHfConfigFile).string(), key, found->dump());
    extras.special_tokens[key] = *found;
  }
  if (const auto found = config.find(kContextKey); found != config.end() && found->is_number_integer())
    extras.context = found->get<std::int64_t>();
  for (const std::string_view name : kFiles) {
    std::error_code error;
    if (!fs::exists(folder / name, error)) continue;
    const fs::path file =
        file_of_folder({.folder = folder, .name = std::string(name), .what = "model's file"});
    std::string text = read_text_file({.path = file, .what = "model's file", .max_bytes = kMaxBytes});
    if (name.ends_with(".json")) {
      try {
        parse_json(text);
      } catch (const Error& failure) {
        throw failure.saying(fmt::format("{}: {}", file.string(), failure.what()));
      }
    }
    extras.files.emplace(name, std::move(text));
  }
  check_can_be_kept(extras, folder);
  return extras;
}

nlohmann::json to_json(const HfExtras& extras) {
  if (extras.empty()) return nullptr;
  return {{"special_tokens", extras.special_tokens}, {"files", extras.files}, {"context", extras.context}};
}

HfExtras hf_extras_of(const nlohmann::json& json) {
  if (json.is_null()) return {};
  HfExtras extras{.special_tokens = json.at("special_tokens"),
                  .files = json.at("files").get<std::map<std::string, std::string>>(),
                  .context = json.value("context", std::int64_t{0})};
  for (const auto& [name, text] : extras.files) {
    TRIREME_CHECK(std::ranges::find(kFiles, name) != std::end(kFiles),
                  "its \"hf_extras\" has a file \"{:.100}\", which no model is kept with", name);
  }
  return extras;
}

void add_extras(const HfExtras& extras, nlohmann::ordered_json& config) {
  for (const auto& [key, value] : extras.special_tokens.items()) config[key] = value;
  const auto context = config.find(kContextKey);
  if (context != config.end() && context->get<std::int64_t>() < extras.context) *context = extras.context;
}

void write_hf_extras(const HfExtras& extras, const fs::path& folder) {
  for (const auto& [name, text] : extras.files) write_text_file(folder / name, text);
}

}  // namespace trireme
