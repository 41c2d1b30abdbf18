#include "runtime/data/bpe_model.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <system_error>

#include "runtime/base/error.h"
#include "runtime/base/regular_file.h"
#include "runtime/checkpoint/json_file.h"
#include "runtime/data/added_ids.h"
#include "runtime/data/bpe_folder.h"
#include "runtime/data/onig_expression.h"
#include "runtime/data/pre_tokenizer.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// The character that represents each byte, and the inverse; characters of unprintable bytes start at U+0100.
struct ByteCharacters {
  std::array<char32_t, 256> of_byte{};
  std::array<int, 324> byte_of{};  // -1: none

  ByteCharacters() {
    byte_of.fill(-1);
    char32_t next = 256;
    for (int byte = 0; byte < 256; ++byte) {
      const bool prints = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
      const char32_t character = prints ? static_cast<char32_t>(byte) : next++;
      of_byte[static_cast<std::size_t>(byte)] = character;
      byte_of[character] = byte;
    }
  }
};

const ByteCharacters& byte_characters() {
  static const ByteCharacters characters;
  return characters;
}

/// Rejects values that would change the tokens and are not supported here.
void expect(const Json& object, const char* key, std::initializer_list<Json> known) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return;
  const bool fits = std::ranges::any_of(known, [&](const Json& value) { return *found == value; });
  TRIREME_CHECK(fits, "its \"{}\" is {:.100}, which is not supported", key, found->dump());
}

void add_split(const Json& json, BpeModel& model) {
  expect(json, "behavior", {"Isolated"});
  expect(json, "invert", {false});
  const Json& pattern = json.at("pattern");
  if (pattern.contains("Regex")) {
    model.patterns.push_back(pcre_of_onig(pattern.at("Regex").get<std::string>()));
  } else {
    model.patterns.push_back(literal_pattern(pattern.at("String").get<std::string>()));
  }
}

constexpr int kMaxSequences = 8;          // nesting depth; published tokenizers have one level
constexpr std::size_t kMaxPatterns = 64;  // published tokenizers have up to five

/// `is_byte_level`: set after ByteLevel, which maps the text to bytes; a later pattern would split these.
void add_pre_tokenizer(const Json& json, BpeModel& model, bool& is_byte_level, int depth = 0) {
  if (json.is_null()) return;
  TRIREME_CHECK(depth <= kMaxSequences, "its pre-tokenizers are nested more than {} deep", kMaxSequences);
  TRIREME_CHECK(model.patterns.size() < kMaxPatterns, "it has more than {} pre-tokenizers", kMaxPatterns);
  const std::string type = json.at("type").get<std::string>();
  if (type == "Sequence") {
    for (const Json& part : json.at("pretokenizers"))
      add_pre_tokenizer(part, model, is_byte_level, depth + 1);
  } else if (type == "Split") {
    TRIREME_CHECK(!is_byte_level, "its pre-tokenizer has a Split after ByteLevel, which is not supported");
    add_split(json, model);
  } else if (type == "ByteLevel") {
    expect(json, "add_prefix_space", {false});
    is_byte_level = true;
    if (json.value("use_regex", true)) model.patterns.push_back(pcre_of_onig(kGpt2Pattern));
  } else {
    throw Error(ErrorCode::kInvalidInput,
                "its pre-tokenizer is \"{:.100}\"; supported are ByteLevel, Split and Sequence", type);
  }
}

std::int32_t read_id(const Json& value) {
  const bool fits =
      value.is_number_integer() && value >= 0 && value < std::numeric_limits<std::int32_t>::max();
  TRIREME_CHECK(fits, "its token id {:.100} is not an integer from 0 to 2^31 - 2", value.dump());
  return value.get<std::int32_t>();
}

/// True if all characters of a token represent bytes.
bool is_written_in_bytes(std::string_view token) {
  return written_token(bytes_of_token(token)) == token;
}

void read_vocabulary(const Json& vocab, BpeModel& model) {
  TRIREME_CHECK(vocab.is_object() && !vocab.empty(), "its vocabulary has no tokens");
  for (const auto& [token, id] : vocab.items()) {
    if (is_written_in_bytes(token)) {
      model.learned.ids.emplace(bytes_of_token(token), read_id(id));
    } else {
      model.unreachable.emplace_back(token, read_id(id));
    }
  }
}

/// Skips merges of tokens that no bytes produce, because they never happen.
void add_merge(const std::string& left, const std::string& right, BpeModel& model) {
  if (!is_written_in_bytes(left) || !is_written_in_bytes(right)) return;
  model.learned.merges.emplace_back(bytes_of_token(left), bytes_of_token(right));
}

std::pair<std::string, std::string> split_merge(std::string_view line, std::size_t number) {
  const std::size_t space = line.find(' ');
  TRIREME_CHECK(space != std::string_view::npos && space > 0 && space + 1 < line.size() &&
                    line.find(' ', space + 1) == std::string_view::npos,
                "its merge {} is \"{:.100}\" instead of two tokens separated by a space", number, line);
  return {std::string(line.substr(0, space)), std::string(line.substr(space + 1))};
}

void read_merges(const Json& merges, BpeModel& model) {
  TRIREME_CHECK(merges.is_array(), "it has no list of merges");
  std::size_t number = 0;
  for (const Json& merge : merges) {
    if (merge.is_string()) {
      const auto [left, right] = split_merge(merge.get_ref<const std::string&>(), number++);
      add_merge(left, right, model);
      continue;
    }
    TRIREME_CHECK(merge.is_array() && merge.size() == 2, "its merge {} is {:.100} instead of two tokens",
                  number, merge.dump());
    add_merge(merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>(), model);
    ++number;
  }
}

/// `vocab`: {"text": id}. Rejects ids that differ from the ids that Hugging Face's tokenizers assign, because
/// weights are trained with the latter.
void read_added(const Json& tokens, const Json& vocab, BpeModel& model) {
  AddedIds ids(vocab);
  for (const Json& token : tokens) {
    expect(token, "lstrip", {false});
    expect(token, "rstrip", {false});
    expect(token, "single_word", {false});
    const std::string content = token.at("content").get<std::string>();
    TRIREME_CHECK(!content.empty(), "one of its added tokens has no text");
    const bool normalized = token.value("normalized", !token.value("special", false));
    const std::int32_t id = read_id(token.at("id"));
    const std::int64_t given = ids.add(content, id);
    TRIREME_CHECK(
        given == id,
        "its added token '{}' has the id {}, but Hugging Face's tokenizers assign {}: added tokens get "
        "consecutive ids after the {} tokens of the vocabulary, whatever the file lists. Load and save the "
        "folder with AutoTokenizer, which writes the assigned ids, or correct the list",
        content, id, given, ids.vocab_size());
    model.added.push_back({content, id, normalized});
  }
}

BpeModel from_tokenizer_json(std::string text) {
  const Json json = parse_json(text);
  TRIREME_CHECK(json.is_object() && json.contains("model"), "it has no \"model\"");
  const Json& bpe = json.at("model");
  const std::string type = bpe.value("type", "BPE");
  TRIREME_CHECK(type == "BPE", "its model is \"{:.100}\"; only byte-level BPE is supported", type);
  TRIREME_CHECK(bpe.contains("merges"), "it has no merges");
  expect(bpe, "dropout", {0.0});
  expect(bpe, "byte_fallback", {false});
  expect(bpe, "continuing_subword_prefix", {""});
  expect(bpe, "end_of_word_suffix", {""});
  if (const Json normalizer = json.value("normalizer", Json()); !normalizer.is_null()) {
    const bool does_nothing =
        normalizer.value("type", "") == "Sequence" && normalizer.value("normalizers", Json::array()).empty();
    TRIREME_CHECK(does_nothing, "it normalizes the text (\"normalizer\": {:.100}), which is not supported",
                  normalizer.dump());
  }
  BpeModel model;
  read_vocabulary(bpe.at("vocab"), model);
  read_merges(bpe.at("merges"), model);
  model.learned.whole_pieces = bpe.value("ignore_merges", false);
  bool is_byte_level = false;
  add_pre_tokenizer(json.value("pre_tokenizer", Json()), model, is_byte_level);
  TRIREME_CHECK(is_byte_level, "its pre-tokenizer has no ByteLevel; only byte-level BPE is supported");
  read_added(json.value("added_tokens", Json::array()), bpe.at("vocab"), model);
  model.text = std::move(text);
  return model;
}

/// Calls read(); errors name `path`.
template <class Read>
auto naming(const fs::path& path, Read&& read) {
  try {
    return read();
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::kInvalidInput, "tokenizer {} is damaged: {:.300}", path.string(), error.what());
  } catch (const Error& error) {
    throw Error(error.code(), "tokenizer {}: {}", path.string(), error.what());
  }
}

BpeModel read_tokenizer_json(const fs::path& file) {
  return naming(file, [&] {
    return from_tokenizer_json(
        read_text_file({.path = file, .what = "tokenizer", .max_bytes = kMaxTokenizerBytes}));
  });
}

}  // namespace

std::string bytes_of_token(std::string_view written) {
  const ByteCharacters& characters = byte_characters();
  std::string bytes;
  for (std::size_t i = 0; i < written.size(); ++i) {
    const auto first = static_cast<unsigned char>(written[i]);
    // All byte characters take one or two bytes of UTF-8.
    const bool two = first >= 0xC2 && first <= 0xC5 && i + 1 < written.size();
    const char32_t character =
        two ? static_cast<char32_t>((first & 0x1F) << 6 | (static_cast<unsigned char>(written[i + 1]) & 0x3F))
            : first;
    const bool known =
        character < characters.byte_of.size() && characters.byte_of[character] >= 0 && (two || first < 0x80);
    if (!known) {
      bytes += written[i];
      continue;
    }
    bytes += static_cast<char>(characters.byte_of[character]);
    i += two ? 1 : 0;
  }
  return bytes;
}

std::string written_token(std::string_view bytes) {
  std::string written;
  for (const char byte : bytes) {
    const char32_t character = byte_characters().of_byte[static_cast<unsigned char>(byte)];
    if (character < 0x80) {
      written += static_cast<char>(character);
    } else {
      written += static_cast<char>(0xC0 | character >> 6);
      written += static_cast<char>(0x80 | (character & 0x3F));
    }
  }
  return written;
}

BpeModel read_bpe_model(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return read_tokenizer_json(path);
  if (!fs::exists(path / "tokenizer.json", error)) {
    return naming(path, [&] { return from_tokenizer_json(tokenizer_json_of(path)); });
  }
  BpeModel model = read_tokenizer_json(path / "tokenizer.json");
  naming(path, [&] { check_added_tokens(path, model); });
  return model;
}

std::string tokenizer_json_of_bytes() {
  Json vocab = Json::object();
  for (int byte = 0; byte < 256; ++byte) vocab[written_token(std::string(1, static_cast<char>(byte)))] = byte;
  const Json json = {
      {"version", "1.0"},
      {"added_tokens", Json::array()},
      {"pre_tokenizer",
       {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}}},
      {"decoder",
       {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}}},
      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", Json::array()}}}};
  return json.dump(1) + "\n";
}

}  // namespace trireme
