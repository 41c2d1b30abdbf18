#include "parallel/run/state_hash.h"

#include <algorithm>

#include "runtime/checkpoint/hash.h"

namespace trireme {
namespace {

std::span<const float> floats_of(const Tensor& tensor) {
  return {static_cast<const float*>(tensor.data()), static_cast<std::size_t>(tensor.num_elems())};
}

// Above the streams of any optimizer's state.
constexpr std::uint64_t kStatisticsStream = 1000, kAveragesStream = 1001;

// Empty fp8 histories are not hashed: a checkpoint that was saved in another mode has none.
bool counts(const RankParts& parts, const std::vector<float>& statistics) {
  return !parts.ctx.precision.has_fp8_products() ||
         std::ranges::any_of(statistics, [](float value) { return value != 0.0f; });
}

// True if all elements of a part of a group belong to one parameter.
bool is_in_a_slot(const ParamGroup& group, std::int64_t first, std::int64_t count) {
  const auto after = std::ranges::upper_bound(group.slots, first, {}, &ParamSlot::offset);
  if (after == group.slots.begin()) return false;
  const ParamSlot& slot = *std::prev(after);
  return first + count <= slot.offset + slot.shape.num_elems();
}

// Clears the gaps between parameters in the part of a group from element `first` on. Gaps are zero in loaded
// state, but an infinite learning rate can have changed them.
void clear_gaps(const ParamGroup& group, std::int64_t first, std::vector<float>& values) {
  const auto clear = [&](std::int64_t begin, std::int64_t end) {
    const auto size = static_cast<std::int64_t>(values.size());
    const auto from = std::clamp<std::int64_t>(begin - first, 0, size);
    const auto to = std::clamp<std::int64_t>(end - first, from, size);
    std::fill(values.begin() + from, values.begin() + to, 0.0f);
  };
  std::int64_t gap = 0;
  for (const ParamSlot& slot : group.slots) {
    clear(gap, slot.offset);
    gap = slot.offset + slot.shape.num_elems();
  }
  clear(gap, group.num_elems);
}

// Hashes a part of a group on the host, from element `first` on. Copies only if there are gaps.
std::uint64_t hash_on_host(const ParamGroup& group, std::int64_t first, std::span<const float> values,
                           std::uint64_t stream, int threads) {
  constexpr std::int64_t kPiece = 64 * kNormBlock;
  const std::int64_t count = std::ssize(values);
  const auto first_block = static_cast<std::uint64_t>(group.first_norm_block + first / kNormBlock);
  std::uint64_t hash = 0;
#pragma omp parallel for schedule(dynamic) num_threads(threads) reduction(+ : hash)
  for (std::int64_t at = 0; at < count; at += kPiece) {
    const auto piece =
        values.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(std::min(kPiece, count - at)));
    const std::uint64_t block = first_block + static_cast<std::uint64_t>(at / kNormBlock);
    if (is_in_a_slot(group, first + at, std::ssize(piece))) {
      hash += hash_blocks(piece, block, stream);
    } else {
      std::vector<float> copy(piece.begin(), piece.end());
      clear_gaps(group, first + at, copy);
      hash += hash_blocks(copy, block, stream);
    }
  }
  return hash;
}

// Hashes this rank's share of the numbers of a quantized group, as if they were its masters.
std::uint64_t hash_of_codes(const RankParts& parts, const ParamGroup& group, const QuantizedGroup& codes,
                            std::int64_t first) {
  constexpr std::int64_t kStretch = 1024 * kNormBlock;
  const std::int64_t end = std::min(first + parts.params.sharding().piece(group.num_elems), group.num_elems);
  std::uint64_t hash = 0;
  std::vector<float> values;
  for (std::int64_t at = first; at < end; at += kStretch) {
    values.resize(static_cast<std::size_t>(std::min(kStretch, end - at)));
    codes.read(parts.ctx, at, values);
    hash += hash_on_host(group, at, values, 0, parts.ctx.exec.num_threads);
  }
  return hash;
}

}  // namespace

std::uint64_t state_hash(const RankParts& parts) {
  const ParamStore& params = parts.params;
  const MeshGroups& groups = parts.groups;
  const bool sharded = params.sharding().ranks > 1;
  const DeviceTraits& device = traits(parts.ctx.allocator->device().type);
  const bool is_host = device.host_memory && device.computes;
  std::uint64_t hash = 0;
  for (std::size_t g = 0; g < parts.layout.groups.size(); ++g) {
    const ParamGroup& group = parts.layout.groups[g];
    const bool is_counted_elsewhere = group.chunk < 0 && parts.tensor_place().place > 0;
    if (!params.owns(static_cast<int>(g)) || is_counted_elsewhere) continue;
    const std::int64_t first = params.first_owned(static_cast<int>(g));
    const auto add = [&](const Tensor& owned, std::uint64_t stream) {
      const std::int64_t count = std::min(owned.num_elems(), group.num_elems - first);  // without padding
      if (count <= 0) return;
      const Tensor mine = owned.slice(0, {count});
      const std::vector<float> copied = is_host ? std::vector<float>() : parts.ctx.to_host(mine);
      const std::span<const float> values = is_host ? floats_of(mine) : std::span(copied);
      hash += hash_on_host(group, first, values, stream, parts.ctx.exec.num_threads);
    };
    if (const QuantizedGroup* codes = params.quantized(static_cast<int>(g))) {
      hash += hash_of_codes(parts, group, *codes, first);
      continue;
    }
    add(params.master(static_cast<int>(g)), 0);
    for (std::size_t s = 0; s < params.state_names(static_cast<int>(g)).size(); ++s) {
      add(params.state(static_cast<int>(g), static_cast<int>(s)), s + 1);
    }
    if (params.has_averages() && !group.frozen) add(params.average(static_cast<int>(g)), kAveragesStream);
  }
  // Gathered, and counted once.
  const std::vector<float> statistics = parts.statistics.whole();
  if (!statistics.empty() && parts.stage() == 0 && parts.tensor_place().place == 0 &&
      (!sharded || parts.data_rank() == 0) && counts(parts, statistics)) {
    hash += hash_blocks(statistics, 0, kStatisticsStream);
  }
  // The sum does not depend on the owner of each part. Without sharding every data rank has all state of its
  // stage and tensor coordinate, so its hash needs no sum over the data axis.
  const auto add_along = [&](Axis axis) {
    if (!groups.spans(axis)) return;
    std::uint64_t total = 0;
    for (const std::uint64_t one : groups.along(axis)->all_gather_value(hash)) total += one;
    hash = total;
  };
  if (sharded) add_along(Axis::kData);
  add_along(Axis::kTensor);
  add_along(Axis::kPipeline);
  return hash;
}

}  // namespace trireme
