// Short texts as samples: one document per row with padding, or several per row.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "runtime/data/dataset.h"
#include "runtime/data/document_file.h"

namespace trireme {

/// Samples are rows of T tokens, int32 [B, T]. Without packing a row is one document. With packing the rows
/// come from pack_rows() and are fixed for the whole run. Rows are permuted by [Note: training order].
///
/// With kTokens and kLabels, each document starts with the class token, and its end is cut off if it is
/// longer than a row. With kNextTokens, a document of n tokens takes n - 1 tokens of a row: each is followed
/// by its target, and the last token is only a target.
///
/// HostBatch::documents is set, except with kNextTokens without packing: a causal model needs no bounds for
/// padding that follows the document.
class DocumentDataset final : public Dataset {
 public:
  enum class Targets : std::uint8_t {
    kTokens,      // every token is its own target; padding and class tokens have no target
    kLabels,      // the document's label, at the class token; other tokens have no target
    kNextTokens,  // the next token where marks_of(path) is 1; other tokens have no target
  };
  /// The treatment of documents that are longer than a row. Other than kCutEnd with kNextTokens only.
  enum class TooLong : std::uint8_t { kCutEnd, kCutBeginning, kDrop };
  struct Options {
    std::filesystem::path path;        // a `.bin` file with its `.documents`
    std::int64_t sequence_length = 0;  // T
    bool pack = false;
    TooLong too_long = TooLong::kCutEnd;
    std::int32_t class_token = 0;
    Targets targets = Targets::kTokens;
    std::uint64_t seed = 0;
    std::int64_t vocab_size = kTokens32.max_vocab;
  };

  /// Throws Error(kInvalidInput) for a missing or damaged file, a row of fewer than two tokens, a token not
  /// below the vocabulary size, documents without a label with kLabels, and, with kNextTokens, if no document
  /// has a target.
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
  /// The marks of targets; null without kNextTokens.
  const std::optional<TokenFile>& marks() const { return marks_; }
  /// Number of documents longer than a row: cut, or dropped with kDrop.
  std::int64_t num_too_long() const { return num_too_long_; }
  /// Number of documents left out because no target remains of them.
  std::int64_t num_without_targets() const { return num_without_targets_; }
  /// Tokens of documents in all rows; the other tokens are padding.
  std::int64_t num_filled() const;

 private:
  /// The part of a document that is in a row.
  struct Piece {
    std::size_t document = 0;
    std::int64_t first_token = 0;  // in file_.tokens()
    std::int32_t tokens = 0;       // of the row
    std::int32_t targets = 0;
  };
  void add_pieces();
  void add_marked(Piece piece);
  std::size_t row_of(std::int64_t sample) const;  // in training order
  std::int64_t targets_of(std::size_t row) const;
  std::vector<std::int32_t> ends_of(std::size_t row) const;
  HostBatch read(const std::vector<std::size_t>& rows) const;
  void fill_row(std::size_t row, std::size_t at, HostBatch& batch) const;
  void fill_piece(const Piece& piece, std::size_t begin, std::size_t row_begin, HostBatch& batch) const;
  std::vector<std::int32_t> read_tokens(const Piece& piece) const;

  Options options_;
  DocumentFile file_;
  std::optional<TokenFile> marks_;
  std::vector<Piece> pieces_;
  std::vector<std::vector<std::int32_t>> rows_;  // indices of the pieces of each row
  std::int64_t most_targets_ = 0, num_too_long_ = 0, num_without_targets_ = 0;
};

}  // namespace trireme
