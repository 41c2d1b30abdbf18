// Layouts of tiny models whose plans are changed and played: what comes out of a play, to the bit.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/pipeline_layout.h"

namespace trireme::testing {

/// Which of an engine's plans.
enum class PlayedPlan : std::uint8_t { kStep, kEvaluation };

struct MutatedLayout {
  enum class Model : std::uint8_t { kGpt, kResNet };
  PipelineLayout in;
  Model model = Model::kGpt;
  Reduction reduction = Reduction::kCanonical;
  int ranks_per_host = 0;  // 0: all on one

  std::string to_string() const;
  EngineOptions options() const;
  std::shared_ptr<const BlockList> blocks() const;
};

/// Stages x data ranks x ZeRO x schedule x recompute x tied parameters x batch norm x accumulation x
/// reduction x hosts, on 1 to 8 ranks.
std::vector<MutatedLayout> mutated_layouts();
/// Tensor ranks x data ranks x stages x ZeRO x recompute, on 2 to 8 ranks.
std::vector<MutatedLayout> mutated_tensor_layouts();
/// As many others, drawn from `seed`.
std::vector<MutatedLayout> random_layouts(std::size_t count, std::uint64_t seed);

/// Bits of states, losses, norms and evaluations of all ranks.
using Bits = std::vector<std::uint64_t>;

class LayoutPlayer {
 public:
  LayoutPlayer(MutatedLayout layout, PlayedPlan played);

  /// As the planner writes it, and what comes out of it.
  const StepPlan& plan() const { return plan_; }
  const Bits& bits() const { return bits_; }
  /// Plays `plan` in place of the planner's, whatever the validator says: two steps and an evaluation; or
  /// evaluations alone. Throws what the first rank that fails throws, also where all ranks wait for each
  /// other.
  Bits play(const StepPlan& plan) const;

 private:
  Bits play_rewritten(Planning planning, const std::function<void(int rank, StepPlan&)>& rewrite) const;

  const MutatedLayout layout_;
  const PlayedPlan played_;
  const std::shared_ptr<const BlockList> blocks_;
  StepPlan plan_;
  Bits bits_;
};

}  // namespace trireme::testing
