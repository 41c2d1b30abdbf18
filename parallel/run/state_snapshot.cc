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
    : parts_(parts), sharding_(parts.params.axis().sharding()), rooms_(parts.layout.groups.size()) {
  const MemoryHolderScope holder(*parts.ctx.allocator, "snapshot");
  for (int g = 0; g < static_cast<int>(rooms_.size()); ++g) {
    if (!parts_.params.owns(g)) continue;
    const std::int64_t elems = sharding_.piece(parts_.layout.groups[static_cast<std::size_t>(g)].num_elems);
    for (std::size_t s = 0; s < states_of(g).size(); ++s) {
      rooms_[static_cast<std::size_t>(g)].push_back(reserve(elems));
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

std::vector<int> StateSnapshot::states_of(int group) const {
  std::vector<int> states = {CheckpointTensor::kMaster};
  for (int s = 0; s < static_cast<int>(parts_.params.state_names(group).size()); ++s) states.push_back(s);
  const bool is_frozen = parts_.layout.groups[static_cast<std::size_t>(group)].frozen;
  if (parts_.params.has_averages() && !is_frozen) states.push_back(CheckpointTensor::kAverage);
  return states;
}

bool StateSnapshot::writes(int group) const {
  const bool is_written_elsewhere =
      parts_.layout.groups[static_cast<std::size_t>(group)].chunk < 0 && parts_.tensor_place().place > 0;
  return parts_.params.owns(group) && !is_written_elsewhere;
}

bool StateSnapshot::writes_statistics() const {
  return parts_.statistics.values().defined() && parts_.data_rank() == 0 && parts_.tensor_place().place == 0;
}

// Without padding.
StateSnapshot::Piece StateSnapshot::place_of_piece(int group) const {
  const std::int64_t whole = parts_.layout.groups[static_cast<std::size_t>(group)].num_elems;
  const std::int64_t first = std::min(sharding_.first(whole), whole);
  const std::int64_t count = std::min(sharding_.piece(whole), whole - first);
  return {.first = first, .values = {static_cast<const float*>(nullptr), static_cast<std::size_t>(count)}};
}

StateSnapshot::Piece StateSnapshot::piece(int group, int state) const {
  if (!writes(group)) return {};
  const std::vector<int> states = states_of(group);
  auto found = std::ranges::find(states, state);
  if (found == states.end() && state == CheckpointTensor::kAverage)
    found = states.begin();  // frozen: its master
  TRIREME_CHECK(found != states.end(), "group {} has no state {}", group, state);
  Piece piece = place_of_piece(group);
  const Room& room =
      rooms_[static_cast<std::size_t>(group)][static_cast<std::size_t>(found - states.begin())];
  piece.values = {room.data(), piece.values.size()};
  return piece;
}

std::span<const float> StateSnapshot::statistics() const {
  if (!writes_statistics()) return {};
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
  const ParamStore& params = parts_.params;
  std::vector<Copy> copies;
  for (int g = 0; g < static_cast<int>(rooms_.size()); ++g) {
    if (!writes(g)) continue;
    const Piece place = place_of_piece(g);
    if (place.values.empty()) continue;
    const std::vector<int> states = states_of(g);
    for (std::size_t s = 0; s < states.size(); ++s) {
      const Tensor& owned = states[s] == CheckpointTensor::kMaster    ? params.master(g)
                            : states[s] == CheckpointTensor::kAverage ? params.average(g)
                                                                      : params.state(g, states[s]);
      copies.push_back({.from = owned.slice(place.first - params.first_owned(g),
                                            {static_cast<std::int64_t>(place.values.size())}),
                        .to = rooms_[static_cast<std::size_t>(g)][s].data()});
    }
  }
  if (writes_statistics()) copies.push_back({.from = parts_.statistics.values(), .to = statistics_.data()});
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
