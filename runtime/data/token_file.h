// Token shards: the common `.bin` layouts of 256 little-endian int32 (magic, version, token count, zeros)
// followed by that many tokens: magic 20240520, version 1 and uint16 for vocabularies of up to 65,536 tokens,
// magic 20240801, version 7 and uint32 for larger ones.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

#include "runtime/base/atomic_file.h"
#include "runtime/base/file_identity.h"
#include "runtime/base/mapped_file.h"

namespace trireme {

/// How the tokens of a file are stored.
struct TokenLayout {
  std::int32_t magic, version;
  std::int64_t token_bytes;
  std::int64_t max_vocab;  // ids are below it

  /// The narrower that holds ids below `vocab_size`.
  static const TokenLayout& of_vocab(std::int64_t vocab_size);
};
inline constexpr TokenLayout kTokens16{20240520, 1, 2, 65536}, kTokens32{20240801, 7, 4, 2147483647};
inline constexpr std::int64_t kTokenFileHeaderBytes = 256 * 4;
/// The header counts tokens in an int32.
inline constexpr std::int64_t kMaxTokensPerFile = 2147483647;

/// A memory-mapped shard.
class TokenFile {
 public:
  /// Throws Error(kInvalidInput) when the file is missing, empty, truncated, of another format or version,
  /// or of a size that contradicts its header.
  explicit TokenFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  const TokenLayout& layout() const { return *layout_; }
  std::int64_t num_tokens() const { return num_tokens_; }
  /// What is behind the header.
  std::span<const std::byte> token_bytes() const {
    return file_.bytes().subspan(static_cast<std::size_t>(kTokenFileHeaderBytes));
  }
  /// Tokens [first, first + count) as int32; ids of 2^31 and more come out negative.
  void read(std::int64_t first, std::int64_t count, std::int32_t* to) const;
  /// The largest token id; reads the whole file.
  std::int64_t max_token() const;
  /// Throws Error(kInvalidInput) naming the first token id >= `vocab_size`. Reads the whole file unless none
  /// that it can hold is too large.
  void check_vocab(std::int64_t vocab_size) const;
  /// Throws Error(kRuntime) when the name has another file than the mapped one, or this one was written
  /// since. Asks the system for the state of the file and reads nothing.
  void check_unchanged() const;

 private:
  // Taken before the file is opened, so that no change after is missed.
  std::optional<FileIdentity> identity_;
  MappedFile file_;
  const TokenLayout* layout_ = &kTokens16;
  std::int64_t num_tokens_ = 0;
};

/// Writes a shard that appears under its name only when commit() has made it whole.
class TokenFileWriter {
 public:
  TokenFileWriter(const std::filesystem::path& path, const TokenLayout& layout);

  std::int64_t num_tokens() const { return num_tokens_; }
  /// Ids below the layout's max_vocab. Throws Error(kInvalidInput) past kMaxTokensPerFile, Error(kRuntime)
  /// when the disk refuses.
  void append(std::span<const std::int32_t> tokens);
  /// Drops all tokens from index `num_tokens` on and appends them to `target`.
  void move_tail(std::int64_t num_tokens, TokenFileWriter& target);
  void commit();

 private:
  void append_stored(std::span<const std::byte> tokens);

  AtomicFile file_;
  const TokenLayout& layout_;
  std::int64_t num_tokens_ = 0;
};

}  // namespace trireme
