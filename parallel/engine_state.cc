// The engine's state: its hash. What is saved of it stands in checkpoint_state.h.
#include <algorithm>

#include "parallel/engine.h"
#include "runtime/checkpoint/hash.h"

namespace trireme {

// Beyond those of any optimizer's state.
constexpr std::uint64_t kStatisticsStream = 1000;

std::uint64_t Engine::state_hash() const {
  std::uint64_t hash = 0;
  for (std::size_t g = 0; g < layout_.groups.size(); ++g) {
    if (!params_->owns(static_cast<int>(g))) continue;
    const ParamGroup& group = layout_.groups[g];
    const std::int64_t first = params_->first_owned(static_cast<int>(g));
    const auto add = [&](const Tensor& owned, std::uint64_t stream) {
      const std::int64_t count = std::min(owned.num_elems(), group.num_elems - first);  // without padding
      if (count <= 0) return;
      const auto block = static_cast<std::uint64_t>(group.first_norm_block + first / kNormBlock);
      hash += hash_blocks(ctx_.to_host(owned.slice(0, {count})), block, stream);
    };
    add(params_->master(static_cast<int>(g)), 0);
    for (std::size_t s = 0; s < params_->state_names().size(); ++s) {
      add(params_->state(static_cast<int>(g), static_cast<int>(s)), s + 1);
    }
  }
  const bool sharded = options_.zero != ZeroStage::kNone;
  // Brought together, and counted once.
  const Tensor statistics = statistics_->whole();
  if (statistics.defined() && (sharded ? groups_.world->rank() == 0 : groups_.place().stage == 0)) {
    hash += hash_blocks(ctx_.to_host(statistics), 0, kStatisticsStream);
  }
  // Pieces of all ranks: the sum does not care who holds what. Without sharding every data rank has all of
  // its stage, and what it says is its own.
  Communicator* const others = sharded ? groups_.world.get() : groups_.pipeline.get();
  if (others == nullptr) return hash;
  std::uint64_t total = 0;
  for (const std::string& text : others->all_gather_strings(std::to_string(hash))) total += std::stoull(text);
  return total;
}

}  // namespace trireme
