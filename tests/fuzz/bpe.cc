// Fuzzes tokenizer.json of byte-level BPE, and encodes random texts with its patterns.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/base/nesting.h"
#include "runtime/data/bpe_model.h"
#include "runtime/data/tokenizer.h"
#include "tests/fuzz/json_changes.h"
#include "tests/fuzz/pattern_draw.h"
#include "tests/fuzz/reader.h"

namespace trireme::fuzz {
namespace {

using nlohmann::json;

constexpr std::string_view kTextWords[] = {
    "a", "b",  "aa",   "hea",           " ",   "  ", "\n",           "it's", "42",   "\xc3\xa9",
    "A", "\t", "\xff", "<|endoftext|>", "<|a", "|>", "\xe4\xb8\xad", "!?",   "\r\n", "\xf0\x9f\x98\x80"};

/// Mostly short texts; one in eight has 100 KB, which must take less than ten seconds.
std::string draw_text(Random& random) {
  constexpr std::size_t kLong = 100'000, kShort = 1000;
  const std::size_t bytes = random.one_in(8) ? kLong : random.below(kShort);
  const std::size_t num_words = 1 + random.below(random.one_in(2) ? 2 : std::size(kTextWords));
  const std::size_t first = random.below(std::size(kTextWords));
  const bool is_noise = random.one_in(8);
  std::string text;
  while (text.size() < bytes) {
    if (is_noise) {
      text += static_cast<char>(random.below(256));
    } else {
      text += kTextWords[(first + random.below(num_words)) % std::size(kTextWords)];
    }
  }
  return text;
}

int fuzz_bpe(const std::uint8_t* data, std::size_t size) {
  const auto path = input_file("tokenizer.json", as_text(data, size));
  Random random(as_text(data, size));
  std::unique_ptr<Tokenizer> tokenizer;
  bool is_loaded = false;
  in_time([&] { is_loaded = taken([&] { tokenizer = load_bpe(path); }); });
  if (!is_loaded) return 0;
  require(tokenizer->model_text() == as_text(data, size),
          "the saved file would differ from the file that was read");
  const std::string text = draw_text(random);
  std::vector<std::int32_t> ids;
  bool is_encoded = false;
  in_time([&] { is_encoded = taken([&] { ids = tokenizer->encode(text); }); });
  if (!is_encoded) return 0;
  for (const std::int32_t id : ids) require(id >= 0 && id < tokenizer->vocab_size(), "an id is out of range");
  require(tokenizer->decode(ids) == text, "decoding does not restore the text");
  const std::int32_t beyond[] = {static_cast<std::int32_t>(tokenizer->vocab_size())};
  require(!taken([&] { tokenizer->decode(beyond); }), "an id beyond the vocabulary is decoded");
  taken([&] { tokenizer->document_separator(); });
  return 0;
}

std::vector<std::string> vocabularies() {
  json vocab = json::object();
  for (int byte = 0; byte < 256; ++byte) vocab[written_token(std::string(1, static_cast<char>(byte)))] = byte;
  vocab["he"] = 256;
  vocab["hea"] = 257;
  const json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  const json split = {
      {"type", "Split"}, {"pattern", {{"Regex", "\\p{L}+|\\s+(?!\\S)"}}}, {"behavior", "Isolated"}};
  json whole = {
      {"added_tokens", {{{"id", 258}, {"content", "<|endoftext|>"}, {"lstrip", false}}}},
      {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {split, byte_level}}}},
      {"model", {{"type", "BPE"}, {"ignore_merges", true}, {"vocab", vocab}, {"merges", {"h e", "he a"}}}}};
  std::vector<std::string> texts{whole.dump()};
  whole["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  whole["model"]["merges"] = json::array({json::array({"h", "e"})});
  texts.push_back(whole.dump());
  return texts;
}

/// Pre-tokenizers of drawn patterns; sometimes many of one pattern, or deeply nested ones.
json draw_pre_tokenizer(Random& random) {
  json parts = json::array();
  const std::size_t most = random.one_in(8) ? 70 : 3;
  const std::string again = random.one_in(2) ? draw_pattern(random) : "";
  for (std::size_t left = random.below(most); left > 0; --left) {
    const std::string pattern = again.empty() ? draw_pattern(random) : again;
    parts.push_back({{"type", "Split"},
                     {"pattern", {{random.one_in(8) ? "String" : "Regex", pattern}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  }
  parts.push_back({{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", random.one_in(2)}});
  json all = {{"type", "Sequence"}, {"pretokenizers", parts}};
  for (std::size_t depth = random.one_in(8) ? random.below(12) : 0; depth > 0; --depth)
    all = {{"type", "Sequence"}, {"pretokenizers", {all}}};
  return all;
}

void add_tokens(json& tokenizer, Random& random) {
  constexpr std::string_view kParts[] = {"<|", "|>", "a", "b", "aa", "h", " ", "\xc3\xa9", "\n", "1"};
  json& added = tokenizer["added_tokens"];
  if (!added.is_array()) added = json::array();
  const std::size_t count = random.one_in(32) ? std::size_t{1} << random.below(14) : 1 + random.below(4);
  for (std::size_t i = 0; i < count; ++i) {
    std::string content;
    for (std::size_t left = 1 + random.below(random.one_in(16) ? 3000 : 6); left > 0; --left)
      content += random.one_of(kParts);
    added.push_back({{"id", random.one_in(8) ? random.below(300) : 300 + added.size()},
                     {"content", content},
                     {"normalized", random.one_in(2)}});
  }
}

void add_merges(json& tokenizer, Random& random) {
  json& model = tokenizer["model"];
  if (!model.is_object() || !model["vocab"].is_object() || !model["merges"].is_array()) return;
  for (std::size_t left = 1 + random.below(random.one_in(8) ? 500 : 5); left > 0; --left) {
    std::string halves[2];
    for (std::string& half : halves)
      half =
          std::next(model["vocab"].begin(), static_cast<std::ptrdiff_t>(random.below(model["vocab"].size())))
              .key();
    const std::string whole = halves[0] + halves[1];
    if (whole.size() > 64) continue;
    if (!model["vocab"].contains(whole)) model["vocab"][whole] = 1000 + model["vocab"].size();
    model["merges"].push_back(json::array({halves[0], halves[1]}));
  }
}

void change_vocabulary(std::string& text, Random& random) {
  constexpr std::string_view kWords[] = {"\"Regex\"", "\"Split\"", "\"ByteLevel\"", "\"BPE\"",
                                         "256",       "65",        "\"a\""};
  json tokenizer;
  if (json_nesting(text) <= kMaxNesting) tokenizer = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (random.one_in(4) || !tokenizer.is_object()) return change_json(text, random, kWords);
  switch (random.below(4)) {
    case 0:
      add_tokens(tokenizer, random);
      break;
    case 1:
      add_merges(tokenizer, random);
      break;
    default:
      tokenizer["pre_tokenizer"] = draw_pre_tokenizer(random);
  }
  text = tokenizer.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

const Reader kBpe{"bpe", fuzz_bpe, vocabularies, change_vocabulary, 5};

}  // namespace trireme::fuzz
