// The description of a folder of prepared tokens: its `dataset.json`. Written last, so a folder with this
// file is complete.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace trireme {

struct DatasetInfo {
  static constexpr const char* kFileName = "dataset.json";

  std::string tokenizer;        // Tokenizer::kind()
  std::string tokenizer_model;  // file name within the folder; empty for bytes
  std::int64_t vocab_size = 0;
  std::int64_t train_tokens = 0;
  std::int64_t eval_tokens = 0;      // 0: no eval.bin
  std::int64_t train_documents = 0;  // 0: the tokens are one stream
  std::int64_t eval_documents = 0;
  std::vector<std::string> classes;  // of documents, by label; empty: no labels
  std::int64_t source_files = 0;
  std::int64_t source_bytes = 0;
  std::int64_t skipped_binary_files = 0;
};

/// Reads `folder`/dataset.json. Throws Error(kInvalidInput) naming the file and key that is missing or wrong.
DatasetInfo read_dataset_info(const std::filesystem::path& folder);

/// Writes `folder`/dataset.json atomically.
void write_dataset_info(const DatasetInfo& info, const std::filesystem::path& folder);

}  // namespace trireme
