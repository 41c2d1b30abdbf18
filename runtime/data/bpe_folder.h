// Folders with a byte-level BPE vocabulary in several files, as saved by transformers' slow tokenizers:
// vocab.json and merges.txt, optionally with added_tokens.json, tokenizer_config.json and
// special_tokens_map.json.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/data/bpe_model.h"

namespace trireme {

inline constexpr std::size_t kMaxTokenizerBytes = std::size_t{128} << 20;  // Llama 3.1's has 17 MB

/// The text of an equivalent tokenizer.json, with the ids of the folder's tokenizer_class. Throws
/// Error(kInvalidInput) if a file is missing or damaged, if the class does not split text as GPT-2 does, or
/// if a file gives an added token another id than transformers.
std::string tokenizer_json_of(const std::filesystem::path& folder);

/// A token added by a file next to a vocabulary.
struct ListedToken {
  std::string content;
  std::optional<std::int64_t> id;  // files name special tokens without ids
  std::string file;                // for messages
};
/// The tokens that tokenizer_config.json, added_tokens.json and special_tokens_map.json add. Throws
/// Error(kInvalidInput) if one is damaged.
std::vector<ListedToken> tokens_beside(const std::filesystem::path& folder);

/// Compares the added tokens listed in the files next to tokenizer.json with the added tokens of `model`.
/// Throws Error(kInvalidInput) naming the first one that `model` lacks, or has with another id.
void check_added_tokens(const std::filesystem::path& folder, const BpeModel& model);

}  // namespace trireme
