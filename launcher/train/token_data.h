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

/// Its tokenizer, with the hash of its file. Throws Error(kInvalidInput) where the file is missing.
TokenizerRecord tokenizer_of(const PreparedData& data);

/// The tokenizer's, of prepared tokens. Throws Error(kInvalidInput) where there are none, saying what is
/// there instead.
std::int64_t vocab_of_data(const DataSection& data);

}  // namespace trireme
