// Windows of token shards as samples: T inputs, and the T tokens shifted by one as targets.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "runtime/data/dataset.h"
#include "runtime/data/token_file.h"

namespace trireme {

/// Samples are int32: inputs [B, T] and targets [B, T], shifted by one token. Windows do not cross shards. A
/// shard of n tokens holds (n - 1) / T windows; a pass covers each once.
///
/// In training order the windows of a shard start at an offset in [0, T), drawn anew for every epoch, so that
/// the cuts move. If the last window would exceed the shard, it is moved back and overlaps its neighbour. The
/// windows of all shards are permuted as one set (see [Note: training order]).
///
/// [Note: shards that change] A shard is checked completely when a run starts, but may be damaged or replaced
/// later. A token id beyond the vocabulary would access memory beyond the embedding, and ranks that read at
/// different times would train on different data. So every read checks the ids of the batch, in the batch's
/// own memory, and checks that the files are unchanged since they were opened. Both checks are cheap and run
/// on the prefetch threads.
class TokenDataset final : public Dataset {
 public:
  struct Options {
    std::filesystem::path path;  // a `.bin` file, a folder of them or a pattern: see find_token_shards()
    std::int64_t sequence_length = 0;  // T
    std::uint64_t seed = 0;
    std::int64_t vocab_size = kTokens32.max_vocab;  // checked on every read
  };

  /// Throws Error(kInvalidInput) if the path is missing, a shard is damaged, or there are too few tokens for
  /// one window.
  explicit TokenDataset(const Options& options);

  std::int64_t num_samples() const override { return first_window_.back(); }
  std::int64_t targets_per_sample() const override { return sequence_length_; }
  // Both throw Error(kRuntime) naming a shard that has changed, or file and position of an id that is too
  // large.
  HostBatch read_train(std::int64_t first, std::int64_t count) const override;
  HostBatch read_sequential(std::int64_t first, std::int64_t count) const override;

  std::int64_t num_tokens() const;
  std::size_t num_shards() const { return shards_.size(); }
  std::span<const TokenFile> shards() const { return shards_; }
  /// The largest token id of all shards; reads all shards completely.
  std::int64_t max_token() const;
  /// Throws Error(kInvalidInput) naming the shard and position of a token id >= `vocab_size`.
  void check_vocab(std::int64_t vocab_size) const;

 private:
  struct WindowIndex {
    std::size_t shard;
    std::int64_t window;  // in the shard
  };
  struct Window {
    std::size_t shard;
    std::int64_t start;  // index in the shard of its first token
  };
  WindowIndex find(std::int64_t window) const;
  HostBatch read(const std::vector<Window>& windows) const;
  void copy_window(const Window& window, std::int64_t row, HostBatch& batch) const;
  void check_ids(const Window& window, std::int64_t row, const HostBatch& batch) const;
  void check_unchanged(const std::vector<Window>& windows) const;

  std::int64_t sequence_length_, vocab_size_;
  std::uint64_t seed_;
  std::vector<TokenFile> shards_;
  std::vector<std::int64_t> first_window_;  // of each shard, counted over all; the last element is the total
};

}  // namespace trireme
