#include "parallel/run/state_snapshot.h"

#include <algorithm>
#include <cstring>

#include "parallel/run/saved_tensors.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

bool is_on_host(const Context& ctx) {
  return traits(ctx.allocator->device().type).host_memory;
}

}  // namespace

StateSnapshot::StateSnapshot(const RankParts& parts)
    : parts_(parts),
      pieces_(parts.params, parts.layout, parts.statistics, parts.groups),
      rooms_(parts.layout.groups.size()) {
  const MemoryHolderScope holder(*parts.ctx.allocator, "snapshot");
  for (int g = 0; g < static_cast<int>(rooms_.size()); ++g) {
    if (!parts_.params.owns(g)) continue;
    const std::int64_t elems =
        parts.params.axis().sharding().piece(parts_.layout.groups[static_cast<std::size_t>(g)].num_elems);
    for (const int state : pieces_.states_of(g)) {
      const bool are_scales = state == CheckpointTensor::kNf4Scales;
      rooms_[static_cast<std::size_t>(g)].push_back(
          reserve(are_scales ? parts.params.quantized(g)->scales().num_elems() : elems));
    }
  }
  const Tensor& statistics = parts_.statistics.values();
  if (statistics.defined()) statistics_ = reserve(statistics.num_elems());
}

// Filled with zeros, so that the first snapshot does not wait for page faults.
StateSnapshot::Room StateSnapshot::reserve(std::int64_t num_elems) const {
  if (is_on_host(parts_.ctx)) {
    return {.counted = parts_.ctx.zeros({num_elems}, DType::kFloat32, MemoryCategory::kHost)};
  }
  return {.uncounted = std::vector<float>(static_cast<std::size_t>(num_elems))};
}

StateSnapshot::Piece StateSnapshot::piece(int group, int state) const {
  const auto [first, count] = pieces_.range_of(group, state);
  if (count == 0) return {};
  const std::vector<int> states = pieces_.states_of(group);
  auto found = std::ranges::find(states, state);
  if (found == states.end() && state == CheckpointTensor::kAverage)
    found = states.begin();  // frozen: its master
  TRIREME_CHECK(found != states.end(), "group {} has no state {}", group, state);
  const Room& room =
      rooms_[static_cast<std::size_t>(group)][static_cast<std::size_t>(found - states.begin())];
  return {.first = first, .values = {room.data(), static_cast<std::size_t>(count)}};
}

std::span<const float> StateSnapshot::statistics() const {
  if (!pieces_.writes_statistics()) return {};
  return {statistics_.data(), static_cast<std::size_t>(parts_.statistics.values().num_elems())};
}

std::int64_t StateSnapshot::size_bytes() const {
  const auto bytes_of = [](const Room& room) {
    const std::size_t bytes = room.uncounted.size() * sizeof(float);
    if (!room.counted.defined()) return static_cast<std::int64_t>(bytes);
    return static_cast<std::int64_t>(Allocator::rounded(static_cast<std::size_t>(room.counted.size_bytes())));
  };
  std::int64_t bytes = bytes_of(statistics_);
  for (const auto& rooms : rooms_) {
    for (const Room& room : rooms) bytes += bytes_of(room);
  }
  return bytes;
}

void StateSnapshot::take() {
  std::vector<Copy> copies;
  for (int g = 0; g < static_cast<int>(rooms_.size()); ++g) {
    const std::vector<int> states = pieces_.states_of(g);
    for (std::size_t s = 0; s < states.size(); ++s) {
      const StatePiece piece = pieces_.piece(g, states[s]);
      if (piece.count == 0) continue;  // there is no room for a group of other ranks
      float* to = rooms_[static_cast<std::size_t>(g)][s].data();
      if (piece.values.defined()) copies.push_back({.from = piece.values, .to = to});
      if (piece.codes == nullptr) continue;
      piece.codes->read(parts_.ctx, piece.first, {to, static_cast<std::size_t>(piece.count)});
    }
  }
  const Tensor statistics = pieces_.statistics_piece().values;
  if (statistics.defined()) copies.push_back({.from = statistics, .to = statistics_.data()});
  const Context& ctx = parts_.ctx;
  if (is_on_host(ctx)) return copy_on_host(copies);
  for (const Copy& copy : copies) ctx.backend->copy_to_host(ctx.exec, copy.to, copy.from);
}

void StateSnapshot::copy_on_host(const std::vector<Copy>& copies) const {
  constexpr std::int64_t kPiece = 1 << 18;  // elements
  struct Part {
    const float* from;
    float* to;
    std::int64_t count;
  };
  std::vector<Part> parts;
  for (const Copy& copy : copies) {
    const auto* from = static_cast<const float*>(copy.from.data());
    for (std::int64_t at = 0; at < copy.from.num_elems(); at += kPiece) {
      parts.push_back({from + at, copy.to + at, std::min(kPiece, copy.from.num_elems() - at)});
    }
  }
  const auto num_parts = static_cast<std::int64_t>(parts.size());
#pragma omp parallel for schedule(dynamic) num_threads(parts_.ctx.exec.num_threads)
  for (std::int64_t i = 0; i < num_parts; ++i) {
    const Part& part = parts[static_cast<std::size_t>(i)];
    std::memcpy(part.to, part.from, static_cast<std::size_t>(part.count) * sizeof(float));
  }
}

}  // namespace trireme
