#include "runtime/data/tokenizer_folder.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/folder_file.h"
#include "runtime/base/log.h"
#include "runtime/base/regular_file.h"
#include "runtime/checkpoint/json_file.h"
#include "runtime/data/bpe_folder.h"
#include "runtime/data/bpe_model.h"
#include "runtime/data/sentencepiece_tokenizer.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

bool has(const fs::path& folder, const char* name) {
  std::error_code error;
  return fs::exists(folder / name, error);
}

/// Null if the file is damaged: its reader reports the error.
Json read_json(const fs::path& path) {
  try {
    return parse_json(read_text_file({.path = path, .what = "tokenizer", .max_bytes = kMaxTokenizerBytes}));
  } catch (const Error&) {
    return nullptr;
  }
}

/// True if a tokenizer.json was converted from a sentencepiece model.
bool is_converted(const Json& json) {
  const Json model = json.is_object() ? json.value("model", Json()) : Json();
  if (!model.is_object()) return false;
  const Json type = model.value("type", Json()), fallback = model.value("byte_fallback", Json());
  return type == "Unigram" || fallback == true;
}

/// True for a tokenizer.json whose ids are the bytes of the text, as tokenizer_json_of_bytes() writes.
bool has_ids_of_bytes(const Json& json) {
  const auto is_empty = [](const Json& object, const char* key) {
    return !object.contains(key) || object[key].empty();
  };
  if (!json.is_object() || !is_empty(json, "normalizer") || !is_empty(json, "added_tokens")) return false;
  const auto model = json.find("model");
  if (model == json.end() || !model->is_object() || !is_empty(*model, "merges")) return false;
  const Json bytes = Json::parse(tokenizer_json_of_bytes());
  // Another splitting could remove text.
  return json.value("pre_tokenizer", Json()) == bytes["pre_tokenizer"] &&
         model->value("type", Json()) == bytes["model"]["type"] &&
         model->value("vocab", Json()) == bytes["model"]["vocab"];
}

/// The text in sentencepiece's form: U+2581 for the space.
std::string piece_of(std::string text) {
  for (std::size_t at = 0; (at = text.find(' ', at)) != std::string::npos;)
    text.replace(at, 1, "\xe2\x96\x81");
  return text;
}

/// Throws Error(kInvalidInput) naming the first token that the files next to tokenizer.model add: the model
/// would split its text like any other.
void check_tokens_beside(const fs::path& folder, const std::vector<ListedToken>& tokens) {
  if (tokens.empty()) return;
  const fs::path model = folder / "tokenizer.model";
  const auto pieces = sentencepiece_pieces(model);
  for (const ListedToken& token : tokens) {
    auto found = pieces.find(token.content);
    if (found == pieces.end()) found = pieces.find(piece_of(token.content));
    const bool is_known = found != pieces.end();
    TRIREME_CHECK(
        is_known && (!token.id || *token.id == found->second),
        "tokenizer {}: its {} lists the added token '{}'{}, which tokenizer.model {}: added tokens beside "
        "a sentencepiece model are not known here. Give {} itself to leave them out: their texts are "
        "plain text then",
        folder.string(), token.file, token.content, token.id ? fmt::format(" with the id {}", *token.id) : "",
        is_known ? fmt::format("has with {}", found->second) : "does not have", model.string());
  }
}

std::vector<ListedToken> read_tokens_beside(const fs::path& folder) {
  try {
    return tokens_beside(folder);
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::kInvalidInput, "tokenizer {} is damaged: {:.300}", folder.string(), error.what());
  } catch (const Error& error) {
    throw Error(error.code(), "tokenizer {}: {}", folder.string(), error.what());
  }
}

/// The tokens of the side files, except those that tokenizer.json has with the same id.
std::vector<ListedToken> tokens_beside_json(const fs::path& folder, const Json& json) {
  std::vector<ListedToken> tokens = read_tokens_beside(folder);
  std::multimap<std::string, Json> added;  // ids by content
  const Json listed = json.value("added_tokens", Json::array());
  for (const Json& token : listed.is_array() ? listed : Json::array()) {
    if (token.is_object() && token.contains("content") && token["content"].is_string())
      added.emplace(token["content"].get<std::string>(), token.value("id", Json()));
  }
  std::erase_if(tokens, [&](const ListedToken& token) {
    const auto [begin, end] = added.equal_range(token.content);
    return std::any_of(begin, end, [&](const auto& other) { return !token.id || other.second == *token.id; });
  });
  return tokens;
}

std::unique_ptr<Tokenizer> load_model_beside(const fs::path& folder, const Json& json) {
  const fs::path model = folder / "tokenizer.model";
  auto tokenizer = load_sentencepiece(model);
  check_tokens_beside(folder, tokens_beside_json(folder, json));
  std::vector<std::string> missing;
  const Json added = json.value("added_tokens", Json::array());
  for (const Json& token : added.is_array() ? added : Json::array()) {
    if (!token.is_object() || !token.contains("id") || !token["id"].is_number_integer()) continue;
    if (token["id"] >= tokenizer->vocab_size()) missing.push_back(token.value("content", std::string("?")));
  }
  log_warning(fmt::format(
      "{} is read: the tokenizer.json beside it was converted from a sentencepiece model{}", model.string(),
      missing.empty() ? std::string()
                      : fmt::format("; {} token(s) that tokenizer.json adds are plain text "
                                    "for the model, the first is '{}'",
                                    missing.size(), missing.front())));
  return tokenizer;
}

std::string files_of(const fs::path& folder) {
  std::vector<std::string> models;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() == ".model") models.push_back(entry->path().filename().string());
  }
  std::ranges::sort(models);
  return models.empty() ? "" : fmt::format("; it has {}: give that file itself", models.front());
}

}  // namespace

std::unique_ptr<Tokenizer> load_tokenizer_folder(const fs::path& folder) {
  const bool has_json = has(folder, "tokenizer.json"), has_model = has(folder, "tokenizer.model");
  for (const auto& [is_there, name] :
       {std::pair(has_json, "tokenizer.json"), std::pair(has_model, "tokenizer.model")}) {
    if (is_there) file_of_folder({.folder = folder, .name = name, .what = "tokenizer"});
  }
  if (has_json) {
    const Json json = read_json(folder / "tokenizer.json");
    if (has_model && is_converted(json)) return load_model_beside(folder, json);
    return has_ids_of_bytes(json) ? make_byte_tokenizer() : load_bpe(folder);
  }
  if (has_model) {
    auto tokenizer = load_sentencepiece(folder / "tokenizer.model");
    check_tokens_beside(folder, read_tokens_beside(folder));
    return tokenizer;
  }
  TRIREME_CHECK(
      has(folder, "vocab.json") || has(folder, "merges.txt"),
      "tokenizer {}: the folder has no tokenizer.json, no tokenizer.model (sentencepiece), and neither "
      "vocab.json nor merges.txt{}",
      folder.string(), files_of(folder));
  return load_bpe(folder);
}

}  // namespace trireme
