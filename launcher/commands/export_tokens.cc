#include "launcher/commands/export_tokens.h"

#include <fmt/core.h>

#include <utility>
#include <vector>

#include "launcher/host/standard_output.h"
#include "runtime/base/atomic_file.h"
#include "runtime/checkpoint/hf_extras.h"
#include "runtime/data/bpe_model.h"
#include "runtime/data/sentencepiece_tokenizer.h"

namespace trireme {
namespace {

constexpr const char* kTokenizerConfigFile = "tokenizer_config.json";

/// The special tokens between two documents: end, and perhaps begin. Empty for an empty line.
std::vector<std::int32_t> document_tokens(const Tokenizer& tokenizer) {
  const std::vector<std::int32_t> separator = tokenizer.document_separator();
  return tokenizer.decode(separator) == "\n\n" ? std::vector<std::int32_t>() : separator;
}

nlohmann::ordered_json tokenizer_config(const Tokenizer& tokenizer) {
  nlohmann::ordered_json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                                   {"clean_up_tokenization_spaces", false}};
  const std::vector<std::int32_t> ids = document_tokens(tokenizer);
  const char* const names[] = {"eos_token", "bos_token"};
  for (std::size_t i = 0; i < ids.size() && i < std::size(names); ++i) {
    config[names[i]] = tokenizer.decode(std::vector{ids[i]});
  }
  return config;
}

/// For a plain BPE model, which the LlamaTokenizer of transformers reads with equal ids.
nlohmann::ordered_json llama_tokenizer_config(const SentencePieceFacts& facts) {
  nlohmann::ordered_json config = {{"tokenizer_class", "LlamaTokenizer"},
                                   {"legacy", false},
                                   {"add_prefix_space", false},
                                   {"add_bos_token", false},
                                   {"add_eos_token", false},
                                   {"clean_up_tokenization_spaces", false}};
  const std::pair<const char*, std::string> tokens[] = {
      {"unk_token", facts.unk}, {"bos_token", facts.bos}, {"eos_token", facts.eos}};
  for (const auto& [name, text] : tokens) {
    if (!text.empty()) config[name] = text;
  }
  return config;
}

void write_sentencepiece(const Tokenizer& tokenizer, bool has_config, const std::filesystem::path& out) {
  const std::filesystem::path file = out / tokenizer_file(kSentencePieceTokenizer);
  write_text_file(file, tokenizer.model_text());
  if (has_config) return;
  const SentencePieceFacts facts = sentencepiece_facts(file);
  if (facts.is_plain_bpe) {
    write_text_file(out / kTokenizerConfigFile, llama_tokenizer_config(facts).dump(2) + "\n");
    return;
  }
  print_line(fmt::format(
      "{}: a sentencepiece model that changes text or has no BPE with byte fallback, so it has no "
      "tokenizer_config.json: transformers would give other ids; encode with the library "
      "sentencepiece",
      file.string()));
}

}  // namespace

std::unique_ptr<Tokenizer> tokenizer_of_run(const RunState& state, const std::filesystem::path& checkpoint) {
  const std::string& kind = state.data.tokenizer.kind;
  return kind.empty() ? nullptr : load_saved_tokenizer(kind, checkpoint);
}

void add_document_tokens(const Tokenizer& tokenizer, HfExtras& extras) {
  if (extras.special_tokens.contains("eos_token_id")) return;
  const std::vector<std::int32_t> ids = document_tokens(tokenizer);
  if (!ids.empty()) extras.special_tokens["eos_token_id"] = ids[0];
  if (ids.size() > 1) extras.special_tokens["bos_token_id"] = ids[1];
}

void write_tokenizer(const Tokenizer& tokenizer, const HfExtras& extras, const std::filesystem::path& out) {
  const bool is_bytes = tokenizer.kind() == kByteTokenizer;
  const bool has_config = extras.files.contains(kTokenizerConfigFile);
  if (tokenizer.kind() == kSentencePieceTokenizer) return write_sentencepiece(tokenizer, has_config, out);
  const std::filesystem::path file = out / tokenizer_file(kBpeTokenizer);
  write_text_file(file, is_bytes ? tokenizer_json_of_bytes() : tokenizer.model_text());
  if (!has_config) write_text_file(out / kTokenizerConfigFile, tokenizer_config(tokenizer).dump(2) + "\n");
  if (document_tokens(tokenizer).empty() && !extras.special_tokens.contains("eos_token_id")) {
    print_line(
        fmt::format("{}: documents end with an empty line, not with a token; generate() stops there with "
                    "stop_strings=\"\\n\\n\" and the tokenizer",
                    file.string()));
  }
}

}  // namespace trireme
