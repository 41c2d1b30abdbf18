// tokenizer.json of byte-level BPE, and the text that its vocabulary then cuts.
#include <nlohmann/json.hpp>

#include "runtime/data/bpe_model.h"
#include "runtime/data/tokenizer.h"
#include "tests/fuzz/reader.h"

namespace trireme::fuzz {
namespace {

int fuzz_bpe(const std::uint8_t* data, std::size_t size) {
  const auto path = input_file("tokenizer.json", as_text(data, size));
  taken([&] {
    const auto tokenizer = load_bpe(path);
    const std::string text = "he said: \xc3\xa9 \xff 123  \n\n<|endoftext|>";
    const auto ids = tokenizer->encode(text);
    for (const std::int32_t id : ids)
      require(id >= 0 && id < tokenizer->vocab_size(), "an id is out of range");
    tokenizer->decode(ids);
  });
  return 0;
}

std::vector<std::string> vocabularies() {
  using nlohmann::json;
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

}  // namespace

const Reader kBpe{"bpe", fuzz_bpe, vocabularies};

}  // namespace trireme::fuzz
