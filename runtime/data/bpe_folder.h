// Folders that hold a byte-level BPE vocabulary in several files, as transformers' slow tokenizers save it:
// vocab.json and merges.txt, with added_tokens.json, tokenizer_config.json and special_tokens_map.json where
// they are there.
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

/// The text of a tokenizer.json that gives the ids of the folder's tokenizer_class. Throws
/// Error(kInvalidInput) where a file is missing or damaged, the class is none that cuts text as GPT-2 does,
/// and where a file gives an added token another id than transformers.
std::string tokenizer_json_of(const std::filesystem::path& folder);

/// A token that a file beside a vocabulary adds.
struct ListedToken {
  std::string content;
  std::optional<std::int64_t> id;  // files name special tokens without ids
  std::string file;                // for messages
};
/// What tokenizer_config.json, added_tokens.json and special_tokens_map.json add. Throws Error(kInvalidInput)
/// where one is damaged.
std::vector<ListedToken> tokens_beside(const std::filesystem::path& folder);

/// Compares the added tokens that the files beside a folder's tokenizer.json list with those of `model`.
/// Throws Error(kInvalidInput) naming the first that `model` lacks, or has with another id.
void check_added_tokens(const std::filesystem::path& folder, const BpeModel& model);

}  // namespace trireme
