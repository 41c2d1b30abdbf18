#include "runtime/data/bpe_folder.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <system_error>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/folder_file.h"
#include "runtime/base/regular_file.h"
#include "runtime/checkpoint/json_file.h"
#include "runtime/data/added_ids.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::string_view kSeparator = "<|endoftext|>";
constexpr const char* kSpecialFiles = "special_tokens_map.json or tokenizer_config.json";

/// A tokenizer_class of transformers that splits text as GPT-2 does, with its default special tokens.
struct TokenizerClass {
  std::string_view name;
  std::map<std::string_view, std::string_view> special;
};

const std::vector<TokenizerClass>& known_classes() {
  static const std::map<std::string_view, std::string_view>
      kGpt2 = {{"bos_token", kSeparator}, {"eos_token", kSeparator}, {"unk_token", kSeparator}},
      kRoberta = {{"bos_token", "<s>"},    {"eos_token", "</s>"},  {"unk_token", "<unk>"},
                  {"sep_token", "</s>"},   {"pad_token", "<pad>"}, {"cls_token", "<s>"},
                  {"mask_token", "<mask>"}};
  static const std::vector<TokenizerClass> kClasses = {
      {"GPT2Tokenizer", kGpt2},    {"CodeGenTokenizer", kGpt2}, {"RobertaTokenizer", kRoberta},
      {"BartTokenizer", kRoberta}, {"LEDTokenizer", kRoberta},  {"LongformerTokenizer", kRoberta}};
  return kClasses;
}

// In the order in which transformers adds them.
constexpr std::string_view kSpecialKeys[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                             "pad_token", "cls_token", "mask_token"};

Json read_json(const fs::path& path, const char* what) {
  std::error_code error;
  if (!fs::exists(path, error)) return Json::object();
  file_of_folder({.folder = path.parent_path(), .name = path.filename().string(), .what = what});
  const Json json = read_json_file(path, what);
  TRIREME_CHECK(json.is_object(), "its {} is no JSON object", path.filename().string());
  return json;
}

/// The files next to a vocabulary; empty if missing.
struct SideFiles {
  Json config, special, added;

  explicit SideFiles(const fs::path& folder)
      : config(read_json(folder / "tokenizer_config.json", "tokenizer configuration")),
        special(read_json(folder / "special_tokens_map.json", "map of special tokens")),
        added(read_json(folder / "added_tokens.json", "list of added tokens")) {}
};

std::string content_of(const Json& token) {
  return token.is_object() ? token.at("content").get<std::string>() : token.get<std::string>();
}

/// An entry of added_tokens in tokenizer.json, without its id.
Json entry_of(const Json& token, bool special) {
  Json entry = token.is_object() ? token : Json{{"content", token}};
  if (!entry.contains("special")) entry["special"] = special;
  if (!entry.contains("normalized")) entry["normalized"] = !entry["special"].get<bool>();
  entry.erase("__type");
  return entry;
}

/// The special tokens by configuration key. `decoder`: the configuration has added_tokens_decoder, which
/// lists them.
std::map<std::string, Json> special_tokens(const SideFiles& files, const TokenizerClass* kind, bool decoder) {
  std::map<std::string, Json> tokens;
  for (const std::string_view key : kSpecialKeys) {
    const std::string name(key);
    if (kind != nullptr && kind->special.contains(key)) tokens[name] = kind->special.at(key);
    if (files.config.contains(name)) tokens[name] = files.config[name];
    if (!decoder && files.special.contains(name)) tokens[name] = files.special[name];
    if (tokens.contains(name) && tokens[name].is_null()) tokens.erase(name);
  }
  return tokens;
}

/// The special tokens in lists, which follow the special tokens with a key each.
std::vector<Json> more_special_tokens(const SideFiles& files, bool decoder) {
  std::vector<Json> tokens;
  for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
    for (const Json* file : {&files.config, decoder ? nullptr : &files.special}) {
      if (file == nullptr || !file->contains(key)) continue;
      for (const Json& token : file->at(key)) tokens.push_back(token);
    }
  }
  return tokens;
}

/// The tokens with ids in the files, in order of the ids.
std::map<std::int64_t, Json> listed_tokens(const SideFiles& files,
                                           const std::map<std::string, Json>& special) {
  std::map<std::int64_t, Json> listed;
  if (files.config.contains("added_tokens_decoder")) {
    for (const auto& [id, token] : files.config["added_tokens_decoder"].items()) {
      std::int64_t number = -1;
      const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), number);
      TRIREME_CHECK(error == std::errc() && end == id.data() + id.size(),
                    "its added_tokens_decoder has the id \"{:.40}\"", id);
      listed[number] = entry_of(token, /*special=*/false);
    }
    return listed;
  }
  for (const auto& [content, id] : files.added.items()) {
    const bool is_special = std::ranges::any_of(
        special, [&content = content](const auto& named) { return content_of(named.second) == content; });
    TRIREME_CHECK(id.is_number_integer(), "its added_tokens.json gives '{}' the id {:.40}", content,
                  id.dump());
    listed[id.get<std::int64_t>()] = entry_of(Json(content), is_special);
  }
  return listed;
}

/// Entries of added_tokens in tokenizer.json, with the ids that transformers assigns.
class AddedTokens {
 public:
  explicit AddedTokens(const Json& vocab) : ids_(vocab) {}

  void add(Json entry, std::optional<std::int64_t> listed_id = std::nullopt) {
    const std::string content = entry.at("content").get<std::string>();
    if (ids_.has(content)) return;
    const std::int64_t id = ids_.add(content, listed_id);
    TRIREME_CHECK(!listed_id || *listed_id == id,
                  "it lists the added token '{}' with the id {}, and transformers would give it {}: its "
                  "vocabulary has {} tokens, and added tokens follow one after the other",
                  content, listed_id.value_or(0), id, ids_.vocab_size());
    entry["id"] = id;
    entries_.push_back(std::move(entry));
  }
  const Json& entries() const { return entries_; }

 private:
  AddedIds ids_;
  Json entries_ = Json::array();
};

/// Null: no class is named, and the vocabulary is GPT-2's.
const TokenizerClass* class_of(const Json& config) {
  if (!config.contains("tokenizer_class") || config["tokenizer_class"].is_null()) return nullptr;
  const std::string full = config["tokenizer_class"].get<std::string>();
  std::string_view name = full;
  if (name.ends_with("Fast")) name.remove_suffix(4);
  std::vector<std::string_view> names;
  for (const TokenizerClass& known : known_classes()) {
    if (known.name == name) return &known;
    names.push_back(known.name);
  }
  throw Error(ErrorCode::kInvalidInput,
              "its tokenizer_class is {:.80}, which needs a tokenizer.json; without it, supported are {}. "
              "transformers' save_pretrained() of a fast tokenizer writes a tokenizer.json",
              full, fmt::join(names, ", "));
}

void check_config(const Json& config) {
  for (const char* key : {"add_prefix_space", "split_special_tokens", "do_lower_case"}) {
    const bool is_off = !config.contains(key) || config[key].is_null() || config[key] == false;
    TRIREME_CHECK(is_off, "its tokenizer_config.json has \"{}\": {:.40}, which is not supported", key,
                  config[key].dump());
  }
}

Json added_tokens_of(const fs::path& folder, const Json& vocab) {
  const SideFiles files(folder);
  check_config(files.config);
  const Json model = read_json(folder / "config.json", "model configuration");
  const TokenizerClass* kind = class_of(files.config.contains("tokenizer_class") ? files.config : model);
  const bool decoder = files.config.contains("added_tokens_decoder");
  const std::map<std::string, Json> special = special_tokens(files, kind, decoder);
  AddedTokens tokens(vocab);
  for (const auto& [id, entry] : listed_tokens(files, special)) tokens.add(entry, id);
  for (const std::string_view key : kSpecialKeys) {
    if (const auto found = special.find(std::string(key)); found != special.end()) {
      tokens.add(entry_of(found->second, /*special=*/true));
    }
  }
  for (const Json& token : more_special_tokens(files, decoder)) tokens.add(entry_of(token, true));
  if (kind == nullptr && vocab.contains(kSeparator)) tokens.add(entry_of(Json(kSeparator), true));
  return tokens.entries();
}

Json merges_of(const std::string& text) {
  Json merges = Json::array();
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    const bool is_heading = merges.empty() && line.starts_with("#version");
    if (!line.empty() && !is_heading) merges.push_back(line);
  }
  TRIREME_CHECK(!merges.empty(), "merges.txt has no merges");
  return merges;
}

}  // namespace

std::string tokenizer_json_of(const fs::path& folder) {
  const auto read = [&](const char* name, const char* what) {
    return read_text_file({.path = file_of_folder({.folder = folder, .name = name, .what = what}),
                           .what = what,
                           .max_bytes = kMaxTokenizerBytes});
  };
  const std::string text = read("vocab.json", "vocabulary");
  const Json vocab = [&] {
    try {
      return parse_json(text);
    } catch (const Error& error) {
      throw Error(error.code(), "its vocab.json: {}", error.what());
    }
  }();
  TRIREME_CHECK(vocab.is_object(), "its vocab.json is no JSON object");
  const Json json = {
      {"version", "1.0"},
      {"added_tokens", added_tokens_of(folder, vocab)},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model",
       {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges_of(read("merges.txt", "list of merges"))}}}};
  return json.dump();
}

std::vector<ListedToken> tokens_beside(const fs::path& folder) {
  const SideFiles files(folder);
  const bool decoder = files.config.contains("added_tokens_decoder");
  const std::map<std::string, Json> special = special_tokens(files, nullptr, decoder);
  std::vector<ListedToken> tokens;
  for (const auto& [id, entry] : listed_tokens(files, special)) {
    tokens.push_back({.content = entry.at("content").get<std::string>(),
                      .id = id,
                      .file = decoder ? "tokenizer_config.json" : "added_tokens.json"});
  }
  const char* file = decoder || files.special.empty() ? "tokenizer_config.json" : kSpecialFiles;
  const auto add_named = [&](const Json& token) {
    tokens.push_back({.content = content_of(token), .file = file});
  };
  for (const auto& [key, token] : special) add_named(token);
  for (const Json& token : more_special_tokens(files, decoder)) add_named(token);
  return tokens;
}

void check_added_tokens(const fs::path& folder, const BpeModel& model) {
  const SideFiles files(folder);
  std::map<std::string, std::int32_t> known;
  for (const BpeModel::Added& token : model.added) known.emplace(token.content, token.id);
  for (const auto& [id, entry] : listed_tokens(files, {})) {
    const std::string content = entry.at("content").get<std::string>();
    const auto found = known.find(content);
    TRIREME_CHECK(
        found != known.end() && found->second == id,
        "{} lists the added token '{}' with the id {}, which its tokenizer.json {}",
        files.config.contains("added_tokens_decoder") ? "tokenizer_config.json" : "added_tokens.json",
        content, id, found == known.end() ? "does not have" : fmt::format("has with {}", found->second));
  }
}

}  // namespace trireme
