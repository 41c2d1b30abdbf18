// Short texts as samples: one document per row with padding, or several per row.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "runtime/data/dataset.h"
#include "runtime/data/document_file.h"

namespace trireme {

/// Samples are rows of T tokens, int32 [B, T], with HostBatch::documents. Without packing a row is one
/// document. With packing the rows come from pack_rows() and are fixed for the whole run. Each document
/// starts with the class token, and its end is cut off if it is longer than a row. Rows are permuted by
/// [Note: training order].
class DocumentDataset final : public Dataset {
 public:
  enum class Targets : std::uint8_t {
    kTokens,  // every token is its own target; padding and class tokens have no target
    kLabels,  // the document's label, at the class token; other tokens have no target
  };
  struct Options {
    std::filesystem::path path;        // a `.bin` file with its `.documents`
    std::int64_t sequence_length = 0;  // T
    bool pack = false;
    std::int32_t class_token = 0;
    Targets targets = Targets::kTokens;
    std::uint64_t seed = 0;
    std::int64_t vocab_size = kTokens32.max_vocab;
  };

  /// Throws Error(kInvalidInput) for a missing or damaged file, a row of fewer than two tokens, a token not
  /// below the vocabulary size, and, with kLabels, documents without a label.
  explicit DocumentDataset(const Options& options);

  std::int64_t num_samples() const override { return static_cast<std::int64_t>(rows_.size()); }
  std::int64_t targets_per_sample() const override { return most_targets_; }
  std::int64_t num_train_targets(std::int64_t first, std::int64_t count) const override;
  std::int64_t num_sequential_targets(std::int64_t first, std::int64_t count) const override;
  // Both throw Error(kRuntime) naming a file that has changed.
  HostBatch read_train(std::int64_t first, std::int64_t count) const override;
  HostBatch read_sequential(std::int64_t first, std::int64_t count) const override;
  std::vector<std::int32_t> train_documents(std::int64_t sample) const override;
  std::vector<std::int32_t> sequential_documents(std::int64_t sample) const override;

  const DocumentFile& file() const { return file_; }
  /// Number of documents longer than a row.
  std::int64_t num_cut() const { return num_cut_; }

 private:
  std::size_t row_of(std::int64_t sample) const;  // in training order
  std::int32_t row_tokens(std::int32_t document) const;
  std::int64_t targets_of(std::size_t row) const;
  std::vector<std::int32_t> ends_of(std::size_t row) const;
  HostBatch read(const std::vector<std::size_t>& rows) const;
  void fill_row(std::size_t row, std::size_t at, HostBatch& batch) const;
  void fill_document(const Document& document, std::int64_t first_token, std::size_t begin,
                     std::size_t row_begin, HostBatch& batch) const;

  Options options_;
  DocumentFile file_;
  std::vector<std::vector<std::int32_t>> rows_;  // document indices of each row
  std::int64_t most_targets_ = 0, num_cut_ = 0;
};

}  // namespace trireme
