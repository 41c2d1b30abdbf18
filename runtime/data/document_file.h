// Short texts as token shards: beside `x.bin`, which holds the tokens of all of them, `x.documents` says
// where each ends, and its label.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "runtime/data/token_file.h"

namespace trireme {

struct Document {
  std::int32_t num_tokens = 0;     // 1 or more
  std::int32_t first_segment = 0;  // tokens of its first segment; the others are of the second
  std::int32_t label = -1;         // -1: none
};

/// 256 little-endian int32 (magic 20241119, version 1, count, zeros), then the count's Documents.
inline constexpr std::int32_t kDocumentMagic = 20241119, kDocumentVersion = 1;

/// "data/train.documents" of "data/train.bin".
std::filesystem::path documents_of(const std::filesystem::path& tokens);

class DocumentFile {
 public:
  /// Of a `.bin` file. Throws Error(kInvalidInput) naming the file that is missing, damaged, or does not fit
  /// the other.
  explicit DocumentFile(const std::filesystem::path& tokens);

  const TokenFile& tokens() const { return tokens_; }
  const std::vector<Document>& documents() const { return documents_; }
  /// The first token of a document in tokens().
  std::int64_t first_token(std::size_t document) const { return first_token_[document]; }
  std::int32_t max_label() const;

 private:
  TokenFile tokens_;
  std::vector<Document> documents_;
  std::vector<std::int64_t> first_token_;
};

/// Writes `documents` beside `tokens`, whole or not at all.
void write_documents(const std::filesystem::path& tokens, const std::vector<Document>& documents);

}  // namespace trireme
