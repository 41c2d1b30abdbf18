// Token shards in the common `.bin` layouts: 256 little-endian int32 (magic, version, token count, zeros),
// then the tokens. Magic 20240520, version 1 and uint16 for vocabularies of up to 65,536 tokens; magic
// 20240801, version 7 and uint32 for larger ones.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

#include "runtime/base/atomic_file.h"
#include "runtime/base/file_identity.h"
#include "runtime/base/mapped_file.h"

namespace trireme {

/// The storage format of the tokens in a file.
struct TokenLayout {
  std::int32_t magic, version;
  std::int64_t token_bytes;
  std::int64_t max_vocab;  // ids are below this

  /// The narrowest layout for ids below `vocab_size`.
  static const TokenLayout& of_vocab(std::int64_t vocab_size);
};
inline constexpr TokenLayout kTokens16{20240520, 1, 2, 65536}, kTokens32{20240801, 7, 4, 2147483647};
inline constexpr std::int64_t kTokenFileHeaderBytes = 256 * 4;
/// The header counts tokens in an int32.
inline constexpr std::int64_t kMaxTokensPerFile = 2147483647;

/// A memory-mapped shard.
class TokenFile {
 public:
  /// Throws Error(kInvalidInput) if the file is missing, empty, truncated, of another format or version, or
  /// its size contradicts its header.
  explicit TokenFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  const TokenLayout& layout() const { return *layout_; }
  std::int64_t num_tokens() const { return num_tokens_; }
  /// The bytes after the header.
  std::span<const std::byte> token_bytes() const {
    return file_.bytes().subspan(static_cast<std::size_t>(kTokenFileHeaderBytes));
  }
  /// Tokens [first, first + count) as int32; ids of 2^31 and above become negative.
  void read(std::int64_t first, std::int64_t count, std::int32_t* to) const;
  /// The largest token id; reads the whole file.
  std::int64_t max_token() const;
  /// Throws Error(kInvalidInput) naming the first token id >= `vocab_size`. Reads the whole file, unless its
  /// dtype cannot hold such an id.
  void check_vocab(std::int64_t vocab_size) const;
  /// Throws Error(kRuntime) if the path now names another file, or the file was written since. Queries the
  /// file status without reading data.
  void check_unchanged() const;

 private:
  // Taken before opening the file, so that no later change is missed.
  std::optional<FileIdentity> identity_;
  MappedFile file_;
  const TokenLayout* layout_ = &kTokens16;
  std::int64_t num_tokens_ = 0;
};

/// Writes a shard under a temporary name; commit() completes and renames it.
class TokenFileWriter {
 public:
  TokenFileWriter(const std::filesystem::path& path, const TokenLayout& layout);

  std::int64_t num_tokens() const { return num_tokens_; }
  /// Ids must be below the layout's max_vocab. Throws Error(kInvalidInput) past kMaxTokensPerFile,
  /// Error(kRuntime) for disk failures.
  void append(std::span<const std::int32_t> tokens);
  /// Removes all tokens from index `num_tokens` on and appends them to `target`.
  void move_tail(std::int64_t num_tokens, TokenFileWriter& target);
  void commit();

 private:
  void append_stored(std::span<const std::byte> tokens);

  AtomicFile file_;
  const TokenLayout& layout_;
  std::int64_t num_tokens_ = 0;
};

}  // namespace trireme
