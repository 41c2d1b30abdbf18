// Short texts as token shards. `x.bin` holds the tokens of all documents; `x.documents` next to it holds the
// length and label of each.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "runtime/data/token_file.h"

namespace trireme {

struct Document {
  std::int32_t num_tokens = 0;     // 1 or more
  std::int32_t first_segment = 0;  // tokens of the first segment; the rest is the second
  std::int32_t label = -1;         // -1: none
};

/// File format: 256 little-endian int32 (magic 20241119, version 1, count, zeros), then `count` Documents.
inline constexpr std::int32_t kDocumentMagic = 20241119, kDocumentVersion = 1;

/// The path of the documents file: "data/train.documents" for "data/train.bin".
std::filesystem::path documents_of(const std::filesystem::path& tokens);
/// The path of the marks of targets: "data/train.targets" for "data/train.bin". The file has the format of a
/// token shard, with 1 for each token that is a target and 0 for each other one.
std::filesystem::path marks_of(const std::filesystem::path& tokens);

class DocumentFile {
 public:
  /// `tokens` is a `.bin` file. Throws Error(kInvalidInput) naming a file that is missing, damaged, or does
  /// not match the other.
  explicit DocumentFile(const std::filesystem::path& tokens);

  const TokenFile& tokens() const { return tokens_; }
  const std::vector<Document>& documents() const { return documents_; }
  /// Index of the document's first token in tokens().
  std::int64_t first_token(std::size_t document) const { return first_token_[document]; }
  std::int32_t max_label() const;

 private:
  TokenFile tokens_;
  std::vector<Document> documents_;
  std::vector<std::int64_t> first_token_;
};

/// Writes `documents` next to `tokens`, atomically.
void write_documents(const std::filesystem::path& tokens, const std::vector<Document>& documents);

}  // namespace trireme
