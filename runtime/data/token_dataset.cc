#include "runtime/data/token_dataset.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <optional>
#include <span>

#include "runtime/base/error.h"
#include "runtime/data/permutation.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> find_shards(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  TRIREME_CHECK(fs::exists(status), "token data {} does not exist", path.string());
  if (!fs::is_directory(status)) return {path};

  std::vector<fs::path> shards;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() == ".bin" && entry->path().filename().string().front() != '.')
      shards.push_back(entry->path());
  }
  TRIREME_CHECK(!error, "cannot list token folder {}: {}", path.string(), error.message());
  TRIREME_CHECK(!shards.empty(), "folder {} has no token shards (*.bin)", path.string());
  std::sort(shards.begin(), shards.end());
  // What `trireme data text` writes: taking the folder would train on the evaluation tokens.
  TRIREME_CHECK(!fs::exists(path / "train.bin") || !fs::exists(path / "eval.bin"),
                "folder {} has both train.bin and eval.bin; name one of the two files", path.string());
  return shards;
}

}  // namespace

TokenDataset::TokenDataset(const Options& options)
    : sequence_length_(options.sequence_length), seed_(options.seed), first_window_{0} {
  TRIREME_CHECK(sequence_length_ >= 1, "the sequence length must be at least 1, not {}", sequence_length_);
  for (const fs::path& path : find_shards(options.path)) {
    const TokenFile& shard = shards_.emplace_back(path);
    const auto num_tokens = static_cast<std::int64_t>(shard.tokens().size());
    first_window_.push_back(first_window_.back() + (num_tokens - 1) / sequence_length_);
  }
  TRIREME_CHECK(num_samples() > 0,
                "{} has {} tokens in {} file(s), too few for one sample of {} inputs and the target of the "
                "last (needs {} in one file); add data or shorten model.seq_len",
                options.path.string(), num_tokens(), num_shards(), sequence_length_, sequence_length_ + 1);
}

std::int64_t TokenDataset::num_tokens() const {
  std::int64_t total = 0;
  for (const TokenFile& shard : shards_) total += static_cast<std::int64_t>(shard.tokens().size());
  return total;
}

std::uint16_t TokenDataset::max_token() const {
  std::uint16_t largest = 0;
  for (const TokenFile& shard : shards_) largest = std::max(largest, shard.max_token());
  return largest;
}

void TokenDataset::check_vocab(std::int64_t vocab_size) const {
  for (const TokenFile& shard : shards_) shard.check_vocab(vocab_size);
}

TokenDataset::Place TokenDataset::find(std::int64_t window) const {
  const auto next = std::upper_bound(first_window_.begin(), first_window_.end(), window);
  const auto shard = static_cast<std::size_t>(next - first_window_.begin()) - 1;
  return {shard, window - first_window_[shard]};
}

HostBatch TokenDataset::empty_batch(std::int64_t first, std::int64_t count) const {
  TRIREME_CHECK(first >= 0 && count >= 0, "cannot read {} samples from sample {} on", count, first);
  HostBatch batch;
  batch.input_shape = batch.target_shape = {count, sequence_length_};
  batch.input_dtype = DType::kInt32;
  const auto elems = static_cast<std::size_t>(count * sequence_length_);
  batch.inputs.resize(elems * sizeof(std::int32_t));
  batch.targets.resize(elems);
  return batch;
}

void TokenDataset::copy_window(std::size_t shard, std::int64_t start, std::int64_t row,
                               HostBatch& batch) const {
  const auto length = static_cast<std::size_t>(sequence_length_);
  assert(start >= 0 && static_cast<std::size_t>(start) + length < shards_[shard].tokens().size());
  const auto window = shards_[shard].tokens().subspan(static_cast<std::size_t>(start), length + 1);
  const std::size_t offset = static_cast<std::size_t>(row) * length;
  std::int32_t* targets = batch.targets.data() + offset;
  std::copy(window.begin() + 1, window.end(), targets);
  // Inputs are the first token and all targets but the last.
  std::byte* inputs = batch.inputs.data() + offset * sizeof(std::int32_t);
  const std::int32_t head = window[0];
  std::memcpy(inputs, &head, sizeof head);
  std::memcpy(inputs + sizeof head, targets, (length - 1) * sizeof(std::int32_t));
}

HostBatch TokenDataset::read_train(std::int64_t first, std::int64_t count) const {
  HostBatch batch = empty_batch(first, count);
  std::optional<Permutation> order;
  std::int64_t order_epoch = -1;
  for (std::int64_t row = 0; row < count; ++row) {
    const std::int64_t epoch = (first + row) / num_samples();
    if (epoch != order_epoch) order.emplace(num_samples(), seed_, static_cast<std::uint32_t>(epoch));
    order_epoch = epoch;
    const Place place = find((*order)((first + row) % num_samples()));
    const std::int64_t offset =
        epoch_offset(sequence_length_, seed_, order->epoch(), static_cast<std::uint32_t>(place.shard));
    const auto num_tokens = static_cast<std::int64_t>(shards_[place.shard].tokens().size());
    const std::int64_t last_start = num_tokens - 1 - sequence_length_;
    copy_window(place.shard, std::min(offset + place.window * sequence_length_, last_start), row, batch);
  }
  return batch;
}

HostBatch TokenDataset::read_sequential(std::int64_t first, std::int64_t count) const {
  HostBatch batch = empty_batch(first, count);
  TRIREME_CHECK(first + count <= num_samples(), "samples {} to {} were asked for, and there are {}", first,
                first + count - 1, num_samples());
  for (std::int64_t row = 0; row < count; ++row) {
    const Place place = find(first + row);
    copy_window(place.shard, place.window * sequence_length_, row, batch);
  }
  return batch;
}

}  // namespace trireme
