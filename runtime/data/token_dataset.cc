#include "runtime/data/token_dataset.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <optional>
#include <span>

#include "runtime/base/error.h"
#include "runtime/data/permutation.h"
#include "runtime/data/token_shards.h"

namespace trireme {
TokenDataset::TokenDataset(const Options& options)
    : sequence_length_(options.sequence_length),
      vocab_size_(options.vocab_size),
      seed_(options.seed),
      first_window_{0} {
  TRIREME_CHECK(sequence_length_ >= 1, "the sequence length must be at least 1, not {}", sequence_length_);
  for (const std::filesystem::path& path : find_token_shards(options.path)) {
    const TokenFile& shard = shards_.emplace_back(path);
    const auto num_tokens = shard.num_tokens();
    first_window_.push_back(first_window_.back() + (num_tokens - 1) / sequence_length_);
  }
  TRIREME_CHECK(num_samples() > 0,
                "{} has {} tokens in {} file(s), too few for one sample of {} inputs and the target of the "
                "last (needs {} in one file); add data or shorten TokenDataset::Options::sequence_length",
                options.path.string(), num_tokens(), num_shards(), sequence_length_, sequence_length_ + 1);
}

std::int64_t TokenDataset::num_tokens() const {
  std::int64_t total = 0;
  for (const TokenFile& shard : shards_) total += shard.num_tokens();
  return total;
}

std::int64_t TokenDataset::max_token() const {
  std::int64_t largest = 0;
  for (const TokenFile& shard : shards_) largest = std::max(largest, shard.max_token());
  return largest;
}

void TokenDataset::check_vocab(std::int64_t vocab_size) const {
  for (const TokenFile& shard : shards_) shard.check_vocab(vocab_size);
}

TokenDataset::WindowIndex TokenDataset::find(std::int64_t window) const {
  const auto next = std::upper_bound(first_window_.begin(), first_window_.end(), window);
  const auto shard = static_cast<std::size_t>(next - first_window_.begin()) - 1;
  return {shard, window - first_window_[shard]};
}

void TokenDataset::copy_window(const Window& window, std::int64_t row, HostBatch& batch) const {
  const auto length = static_cast<std::size_t>(sequence_length_);
  const TokenFile& shard = shards_[window.shard];
  assert(window.start >= 0 && window.start + sequence_length_ < shard.num_tokens());
  const std::size_t offset = static_cast<std::size_t>(row) * length;
  std::int32_t* targets = batch.targets.data() + offset;
  shard.read(window.start + 1, sequence_length_, targets);
  // Inputs are the first token and all targets but the last.
  std::byte* inputs = batch.inputs.data() + offset * sizeof(std::int32_t);
  std::int32_t head = 0;
  shard.read(window.start, 1, &head);
  std::memcpy(inputs, &head, sizeof head);
  std::memcpy(inputs + sizeof head, targets, (length - 1) * sizeof(std::int32_t));
}

// Checks the batch, not the file, which may change between a check and a copy.
void TokenDataset::check_ids(const Window& window, std::int64_t row, const HostBatch& batch) const {
  const auto length = static_cast<std::size_t>(sequence_length_);
  const std::size_t offset = static_cast<std::size_t>(row) * length;
  std::int32_t head = 0;
  std::memcpy(&head, batch.inputs.data() + offset * sizeof head, sizeof head);
  const std::span<const std::int32_t> targets(batch.targets.data() + offset, length);
  auto largest = static_cast<std::uint32_t>(head);  // a plain loop, which the compiler vectorises
  for (const std::int32_t target : targets) largest = std::max(largest, static_cast<std::uint32_t>(target));
  if (largest < vocab_size_) return;
  std::int64_t position = window.start, token = static_cast<std::uint32_t>(head);
  for (std::size_t i = 0; token < vocab_size_; ++i) {
    ++position;
    token = static_cast<std::uint32_t>(targets[i]);
  }
  throw Error(ErrorCode::kRuntime,
              "token file {}: token {} at position {} is not below the vocabulary size {}; the file was "
              "damaged or replaced while the run reads it: restore it and start again, to resume",
              shards_[window.shard].path().string(), token, position, vocab_size_);
}

void TokenDataset::check_unchanged(const std::vector<Window>& windows) const {
  std::vector<std::size_t> touched;
  for (const Window& window : windows) touched.push_back(window.shard);
  std::ranges::sort(touched);
  const auto repeated = std::ranges::unique(touched);
  touched.erase(repeated.begin(), repeated.end());
  for (const std::size_t shard : touched) shards_[shard].check_unchanged();
}

// [Note: shards that change]
HostBatch TokenDataset::read(const std::vector<Window>& windows) const {
  const auto count = static_cast<std::int64_t>(windows.size());
  HostBatch batch;
  batch.input_shape = batch.target_shape = {count, sequence_length_};
  batch.input_dtype = DType::kInt32;
  const auto elems = static_cast<std::size_t>(count * sequence_length_);
  batch.inputs.resize(elems * sizeof(std::int32_t));
  batch.targets.resize(elems);
  check_unchanged(windows);  // first, because reading beyond the end of a shortened file crashes
  for (std::int64_t row = 0; row < count; ++row) {
    const Window& window = windows[static_cast<std::size_t>(row)];
    copy_window(window, row, batch);
    check_ids(window, row, batch);
  }
  check_unchanged(windows);
  return batch;
}

HostBatch TokenDataset::read_train(std::int64_t first, std::int64_t count) const {
  TRIREME_CHECK(first >= 0 && count >= 0, "cannot read {} samples from sample {}", count, first);
  std::vector<Window> windows;
  std::optional<Permutation> order;
  std::int64_t order_epoch = -1;
  for (std::int64_t sample = first; sample < first + count; ++sample) {
    const std::int64_t epoch = sample / num_samples();
    if (epoch != order_epoch) order.emplace(num_samples(), seed_, static_cast<std::uint32_t>(epoch));
    order_epoch = epoch;
    const WindowIndex index = find((*order)(sample % num_samples()));
    const std::int64_t offset =
        epoch_offset(sequence_length_, seed_, order->epoch(), static_cast<std::uint32_t>(index.shard));
    const auto num_tokens = shards_[index.shard].num_tokens();
    const std::int64_t last_start = num_tokens - 1 - sequence_length_;
    windows.push_back({index.shard, std::min(offset + index.window * sequence_length_, last_start)});
  }
  return read(windows);
}

HostBatch TokenDataset::read_sequential(std::int64_t first, std::int64_t count) const {
  TRIREME_CHECK(first >= 0 && count >= 0, "cannot read {} samples from sample {}", count, first);
  TRIREME_CHECK(first + count <= num_samples(), "samples {} to {} were requested, but there are only {}",
                first, first + count - 1, num_samples());
  std::vector<Window> windows;
  for (std::int64_t sample = first; sample < first + count; ++sample) {
    const WindowIndex index = find(sample);
    windows.push_back({index.shard, index.window * sequence_length_});
  }
  return read(windows);
}

}  // namespace trireme
