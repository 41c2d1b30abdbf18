// A checkpoint's record of its training data. data_check.h compares it with other data.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "launcher/config/config.h"
#include "runtime/data/data_fingerprint.h"
#include "runtime/data/tokenizer.h"

namespace trireme {

struct TokenizerRecord {
  std::string kind;             // Tokenizer::kind(); empty: unknown
  std::uint64_t hash = 0;       // of its file's content; 0: no file
  std::int64_t vocab_size = 0;  // 0: unknown
};

/// The record of a tokenizer with the file `file`, which is empty for a kind without a file. Throws
/// Error(kInvalidInput) if the file is missing.
TokenizerRecord read_tokenizer_record(const std::string& kind, const std::filesystem::path& file,
                                      std::int64_t vocab_size = 0);
TokenizerRecord record_of(const Tokenizer& tokenizer);

/// Reads a tokenizer's file and checks its hash, if `record` has one. Throws Error(kInvalidInput) if the file
/// is missing, too large, has another hash, or is a link out of its folder.
std::string read_checked_tokenizer(const std::filesystem::path& file, const TokenizerRecord& record);

/// True if both are the same, or one is unknown.
bool is_same(const TokenizerRecord& a, const TokenizerRecord& b);
/// "bpe of 300 tokens, hash 00c0ffee00c0ffee"
std::string to_string(const TokenizerRecord& tokenizer);

/// Preprocessing of images, without augmentation.
struct ImageRecord {
  std::int64_t size = 0;
  double center = 1.0;
  std::array<double, 3> mean = {}, stddev = {};
};

/// The keys that determine how tokens are cut into samples.
struct RowRecord {
  std::int64_t seq_len = 0;
  bool pack = false;
  DocumentDataset::TooLong too_long = DocumentDataset::TooLong::kCutEnd;
};

struct DataRecord {
  std::int64_t samples = 0;       // consumed so far: the position in the training order
  std::int64_t pass_samples = 0;  // samples of one pass; 0: unknown
  std::optional<DataFingerprint> train, eval;
  TokenizerRecord tokenizer;
  std::vector<std::string> class_names;  // by label, UTF-8; empty: none or unknown
  std::optional<ImageRecord> images;     // for images
  std::optional<RowRecord> rows;         // for tokens and documents

  /// Older builds saved no fingerprint, so the data cannot be compared.
  bool is_of_older_build() const { return !train; }
};

/// The entry "data" of a manifest. Class names, the tokenizer's kind and the image keys are stored outside
/// this entry, where older builds read them.
nlohmann::json to_json(const DataRecord& record);

/// Reads the content of a manifest in `folder`, from any build; `config` is the manifest's job. Throws.
DataRecord read_data_record(const nlohmann::json& content, const JobConfig& config,
                            const std::filesystem::path& folder);

/// The image keys; null for other data.
std::optional<ImageRecord> image_record(const DataSection& data);
/// The keys of tokens and documents; null for other data.
std::optional<RowRecord> row_record(const JobConfig& config);

}  // namespace trireme
