// Token shards: the common `.bin` layout of 256 little-endian int32 (magic 20240520, version 1, token count,
// zeros) followed by that many uint16 tokens.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

#include "runtime/base/atomic_file.h"
#include "runtime/base/file_identity.h"
#include "runtime/base/mapped_file.h"

namespace trireme {

inline constexpr std::int32_t kTokenFileMagic = 20240520;
inline constexpr std::int32_t kTokenFileVersion = 1;
inline constexpr std::int64_t kTokenFileHeaderBytes = 256 * 4;
/// The header counts tokens in an int32.
inline constexpr std::int64_t kMaxTokensPerFile = 2147483647;
/// Token ids are stored in 16 bits.
inline constexpr std::int64_t kMaxTokenVocab = 65536;

/// A memory-mapped shard.
class TokenFile {
 public:
  /// Throws Error(kInvalidInput) when the file is missing, empty, truncated, of another format or version,
  /// or of a size that contradicts its header.
  explicit TokenFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  std::span<const std::uint16_t> tokens() const { return tokens_; }
  /// The largest token id; reads the whole file.
  std::uint16_t max_token() const;
  /// Throws Error(kInvalidInput) naming the first token id >= `vocab_size`. Reads the whole file unless no
  /// 16-bit id can be too large.
  void check_vocab(std::int64_t vocab_size) const;
  /// Throws Error(kRuntime) when the name has another file than the mapped one, or this one was written
  /// since. Asks the system for the state of the file and reads nothing.
  void check_unchanged() const;

 private:
  // Taken before the file is opened, so that no change after is missed.
  std::optional<FileIdentity> identity_;
  MappedFile file_;
  std::span<const std::uint16_t> tokens_;
};

/// Writes a shard that appears under its name only when commit() has made it whole.
class TokenFileWriter {
 public:
  explicit TokenFileWriter(const std::filesystem::path& path);

  std::int64_t num_tokens() const { return num_tokens_; }
  /// Throws Error(kInvalidInput) past kMaxTokensPerFile, Error(kRuntime) when the disk refuses.
  void append(std::span<const std::uint16_t> tokens);
  /// Drops all tokens from index `num_tokens` on and appends them to `target`.
  void move_tail(std::int64_t num_tokens, TokenFileWriter& target);
  void commit();

 private:
  AtomicFile file_;
  std::int64_t num_tokens_ = 0;
};

}  // namespace trireme
