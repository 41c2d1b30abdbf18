// Tokens for a job.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launcher/train/data_module.h"
#include "launcher/train/data_record.h"
#include "runtime/data/dataset_info.h"

namespace trireme {

extern const DataModule kTokenData;
/// The same tokens for masked language modelling.
extern const DataModule kMaskedTokenData;

/// The description beside prepared tokens, for a path as in data.train; empty where there is none.
struct PreparedData {
  std::filesystem::path folder;
  DatasetInfo info;
};
std::optional<PreparedData> find_prepared_data(const std::filesystem::path& path);

/// The files of tokens that data.train or data.eval names.
enum class TokenPart : std::uint8_t { kTrain, kEval };
std::vector<std::filesystem::path> token_files(const std::string& path, TokenPart part);

/// The file of its tokenizer; nothing for a kind that needs none. Throws Error(kInvalidInput) where it is
/// missing or not in the folder ([Note: folders of strangers]).
std::optional<std::filesystem::path> tokenizer_file_of(const PreparedData& data);

/// Its tokenizer, with the hash of its file. Throws as tokenizer_file_of() does.
TokenizerRecord tokenizer_of(const PreparedData& data);

/// The tokenizer's, of prepared tokens. Throws Error(kInvalidInput) where there are none, saying what is
/// there instead.
std::int64_t vocab_of_data(const DataSection& data);

}  // namespace trireme
