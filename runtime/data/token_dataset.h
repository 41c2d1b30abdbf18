// Windows of token shards as samples: T inputs and the T tokens that follow them as targets.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/dataset.h"
#include "runtime/data/token_file.h"

namespace trireme {

/// Samples are int32: inputs [B, T] and targets [B, T], shifted by one token. No window crosses from one
/// shard to the next. A shard of n tokens holds (n - 1) / T windows; a pass covers each once.
///
/// In training order the windows of a shard start at an offset in [0, T) that is drawn anew every epoch, so
/// that the cuts fall elsewhere; the last window is moved back where it would leave the shard, and overlaps
/// its neighbour then. The windows of all shards are permuted together (see [Note: training order]).
class TokenDataset final : public Dataset {
 public:
  struct Options {
    std::filesystem::path path;  // a `.bin` file, or a folder whose `*.bin` files are taken in order of name
    std::int64_t sequence_length = 0;  // T
    std::uint64_t seed = 0;
  };

  /// Throws Error(kInvalidInput) when the path is missing, a shard is damaged, or there are too few tokens
  /// for one window.
  explicit TokenDataset(const Options& options);

  std::int64_t num_samples() const override { return first_window_.back(); }
  std::int64_t targets_per_sample() const override { return sequence_length_; }
  HostBatch read_train(std::int64_t first, std::int64_t count) const override;
  HostBatch read_sequential(std::int64_t first, std::int64_t count) const override;

  std::int64_t num_tokens() const;
  std::size_t num_shards() const { return shards_.size(); }
  std::span<const TokenFile> shards() const { return shards_; }
  /// The largest token id of all shards; reads them whole.
  std::uint16_t max_token() const;
  /// Throws Error(kInvalidInput) naming the shard and position of a token id >= `vocab_size`.
  void check_vocab(std::int64_t vocab_size) const;

 private:
  struct Place {
    std::size_t shard;
    std::int64_t window;  // in the shard
  };
  Place find(std::int64_t window) const;
  void copy_window(std::size_t shard, std::int64_t start, std::int64_t row, HostBatch& batch) const;
  HostBatch empty_batch(std::int64_t first, std::int64_t count) const;

  std::int64_t sequence_length_;
  std::uint64_t seed_;
  std::vector<TokenFile> shards_;
  std::vector<std::int64_t> first_window_;  // of each shard, counted over all; ends with the total
};

}  // namespace trireme
