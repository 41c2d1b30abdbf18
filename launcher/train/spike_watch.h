// train.on_spike: what a run does about a loss or gradient norm that leaps.
//
// [Note: rollback] A spike that a fault made (a bit that flipped in a gradient, a bad message) does not come
// again when its steps are done again; one that data and mathematics made does, as steps have the same bits.
// So the step of a spike ends the job once, before any checkpoint has it; the next start goes on from the
// checkpoint before, and where the spike comes again it is passed with a warning, like those of the
// kWindow steps after it. rollbacks.jsonl in the output folder remembers the steps, however the job ends.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>

#include "launcher/config/words.h"
#include "launcher/train/spike_detector.h"
#include "parallel/comm/communicator.h"
#include "parallel/run/step_records.h"

namespace trireme {

class SpikeWatch {
 public:
  struct Finding {
    std::string text;  // empty: no spike begins with the step
    bool rolls_back = false;
    bool came_again = false;
    bool left_out = false;
    bool is_taken = false;  // after as many that were left out as may be
  };
  /// [Note: steps left out] Where every step is a spike, the level is another one, and not one step is
  /// strange: after so many in a row the next is taken, which teaches the detector.
  static constexpr int kMostLeftOut = 8;

  /// `state`: of the checkpoint that the run goes on from, the same on every rank. Rank 0 reads `rollbacks`,
  /// which need not exist. Collective, but with OnSpike::kIgnore. Throws AgreedError where it is damaged.
  SpikeWatch(OnSpike policy, Communicator& comm, std::filesystem::path rollbacks, const SpikeState& state);

  /// Whether a step that is under way is left out of the updates (OnSpike::kSkip). The same on every rank.
  bool leaves_out(double loss, double grad_norm) const;
  /// The next step, the same on every rank. With OnSpike::kIgnore it is only remembered: a run may go on with
  /// another policy.
  Finding look(const StepResult& step);
  /// Remembers that the job is rolled back for a spike. On rank 0. Throws Error(kRuntime).
  void remember(const StepResult& step) const;
  /// After the last step.
  SpikeState state() const;
  /// Steps of earlier rollbacks.
  const std::set<std::int64_t>& rolled_back() const { return rolled_back_; }

 private:
  Finding look_at_left_out(const StepResult& step);

  const OnSpike policy_;
  const std::filesystem::path file_;
  SpikeDetector detector_;
  std::set<std::int64_t> rolled_back_;
  std::int64_t calm_from_ = 0;  // the first step that may be rolled back again
  int left_out_in_a_row_ = 0;
};

}  // namespace trireme
