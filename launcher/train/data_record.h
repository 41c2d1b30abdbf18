// The record of a checkpoint about the data that it was trained on. data_check.h compares it with other data.
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
  std::string kind;             // Tokenizer::kind(); empty: not known
  std::uint64_t hash = 0;       // of the content of its file; 0: it has none
  std::int64_t vocab_size = 0;  // 0: not known
};

/// A tokenizer whose file is `file`; empty for a kind that needs none. Throws Error(kInvalidInput) where the
/// file is missing.
TokenizerRecord read_tokenizer_record(const std::string& kind, const std::filesystem::path& file,
                                      std::int64_t vocab_size = 0);
TokenizerRecord record_of(const Tokenizer& tokenizer);

/// The content of a tokenizer's file, which has the hash of `record` unless that is unknown. Throws
/// Error(kInvalidInput) where the file is missing, a link out of its folder, too large, or another one.
std::string read_checked_tokenizer(const std::filesystem::path& file, const TokenizerRecord& record);

/// An unknown tokenizer agrees with all.
bool is_same(const TokenizerRecord& a, const TokenizerRecord& b);
/// "bpe of 300 tokens, hash 00c0ffee00c0ffee"
std::string to_string(const TokenizerRecord& tokenizer);

/// The view of a picture beside its augmentation.
struct ImageRecord {
  std::int64_t size = 0;
  double center = 1.0;
  std::array<double, 3> mean = {}, stddev = {};
};

/// The keys that cut tokens into samples.
struct RowRecord {
  std::int64_t seq_len = 0;
  bool pack = false;
};

struct DataRecord {
  std::int64_t samples = 0;       // consumed: the place in the order of the training data
  std::int64_t pass_samples = 0;  // of the training data; 0: not known
  std::optional<DataFingerprint> train, eval;
  TokenizerRecord tokenizer;
  std::vector<std::string> class_names;  // by label, UTF-8; empty: none, or not known
  std::optional<ImageRecord> images;     // of pictures
  std::optional<RowRecord> rows;         // of tokens and documents

  /// Builds before this one saved no fingerprint: data cannot be compared then.
  bool is_of_older_build() const { return !train; }
};

/// As the entry "data" of a manifest. Class names, the tokenizer's kind, and the keys of pictures are
/// elsewhere in it, where builds before this one look for them.
nlohmann::json to_json(const DataRecord& record);

/// Reads the content of a manifest in `folder`, of any build; `config` is its job. Throws.
DataRecord read_data_record(const nlohmann::json& content, const JobConfig& config,
                            const std::filesystem::path& folder);

/// The keys of pictures; nothing for other data.
std::optional<ImageRecord> image_record(const DataSection& data);
/// The keys of tokens and documents; nothing for other data.
std::optional<RowRecord> row_record(const JobConfig& config);

}  // namespace trireme
