// Token data for a job.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launcher/data/data_module.h"
#include "launcher/data/data_record.h"
#include "runtime/data/dataset_info.h"

namespace trireme {

extern const DataModule kTokenData;
/// The same tokens, or conversations with marked targets.
extern const DataModule kDecoderData;
/// The same tokens for masked language modelling.
extern const DataModule kMaskedTokenData;

/// The description of prepared tokens at a path from data.train; null if there is none.
struct PreparedData {
  std::filesystem::path folder;
  DatasetInfo info;
};
std::optional<PreparedData> find_prepared_data(const std::filesystem::path& path);

/// The token files that data.train or data.eval names.
enum class TokenPart : std::uint8_t { kTrain, kEval };
std::vector<std::filesystem::path> token_files(const std::string& path, TokenPart part);

/// The file of the data's tokenizer; null for a kind without a file. Throws Error(kInvalidInput) if it is
/// missing or outside the folder ([Note: folders of strangers]).
std::optional<std::filesystem::path> tokenizer_file_of(const PreparedData& data);

/// The data's tokenizer with its file's hash. Throws as tokenizer_file_of() does.
TokenizerRecord tokenizer_of(const PreparedData& data);

/// The tokenizer's vocabulary size, for prepared tokens. Throws Error(kInvalidInput) if there are none, with
/// what the path contains instead.
std::int64_t vocab_of_data(const DataSection& data);

}  // namespace trireme
