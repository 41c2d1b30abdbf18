// Layouts of tiny models whose plans are changed and played, with the bits of the results.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/pipeline_layout.h"

namespace trireme::testing {

/// The plan of an engine that is played.
enum class PlayedPlan : std::uint8_t { kStep, kEvaluation };

struct MutatedLayout {
  enum class Model : std::uint8_t { kGpt, kResNet };
  PipelineLayout in;
  Model model = Model::kGpt;
  Reduction reduction = Reduction::kCanonical;
  int ranks_per_host = 0;  // 0: all on one host

  std::string to_string() const;
  EngineOptions options() const;
  std::shared_ptr<const BlockList> blocks() const;
};

/// Stages x data ranks x ZeRO x schedule x recompute x tied parameters x batch norm x accumulation x
/// reduction x hosts, on 1 to 8 ranks.
std::vector<MutatedLayout> mutated_layouts();
/// Tensor ranks x data ranks x stages x ZeRO x recompute, on 2 to 8 ranks.
std::vector<MutatedLayout> mutated_tensor_layouts();
/// `count` other layouts, drawn from `seed`.
std::vector<MutatedLayout> random_layouts(std::size_t count, std::uint64_t seed);

/// Bits of states, losses, norms and evaluations of all ranks.
using Bits = std::vector<std::uint64_t>;

class LayoutPlayer {
 public:
  LayoutPlayer(MutatedLayout layout, PlayedPlan played);

  /// The planner's plan, and the result of playing it.
  const StepPlan& plan() const { return plan_; }
  const Bits& bits() const { return bits_; }
  /// Plays `plan` instead of the planner's, regardless of the validator: two steps and an evaluation, or only
  /// evaluations. Throws the error of the first rank that fails, also if all ranks wait for each other.
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
