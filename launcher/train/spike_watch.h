// train.on_spike: the reaction to a spike of the loss or the gradient norm.
//
// [Note: rollback] A spike caused by a fault (a flipped bit in a gradient, a corrupt message) does not recur
// when its steps are repeated. A spike caused by data and mathematics does, because steps have the same bits.
// So the step of a spike ends the job once, before any checkpoint contains it, and the next start resumes
// from the checkpoint before. If the spike recurs, it is accepted with a warning, as are spikes in the
// kWindow steps after it. rollbacks.jsonl in the output folder stores these steps, however the job ends.
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
    std::string text;  // empty: no spike begins with this step
    bool rolls_back = false;
    bool came_again = false;
    bool left_out = false;
    bool is_taken = false;  // accepted, after the maximum of consecutive left-out steps
  };
  /// [Note: steps left out] If every step is a spike, the level has changed. After this many consecutive
  /// left-out steps, the next one is accepted, and the detector learns from it.
  static constexpr int kMostLeftOut = 8;

  /// `state`: from the checkpoint that the run resumes from, the same on every rank. Rank 0 reads
  /// `rollbacks`, which may not exist. Collective, except with OnSpike::kIgnore. Throws AgreedError if that
  /// file is damaged.
  SpikeWatch(OnSpike policy, Communicator& comm, std::filesystem::path rollbacks, const SpikeState& state);

  /// True if a step in progress is to be left out of the updates (OnSpike::kSkip). The same on every rank.
  bool leaves_out(double loss, double grad_norm) const;
  /// Examines the next step; the same result on every rank. With OnSpike::kIgnore the step is only recorded,
  /// since a resumed run may use another policy.
  Finding look(const StepResult& step);
  /// Records that the job is rolled back for a spike. On rank 0. Throws Error(kRuntime).
  void remember(const StepResult& step) const;
  /// The state after the last step.
  SpikeState state() const;
  /// Steps of earlier rollbacks.
  const std::set<std::int64_t>& rolled_back() const { return rolled_back_; }

 private:
  Finding look_at_left_out(const StepResult& step);

  const OnSpike policy_;
  const std::filesystem::path file_;
  SpikeDetector detector_;
  std::set<std::int64_t> rolled_back_;
  std::int64_t calm_from_ = 0;  // first step that may be rolled back again
  int left_out_in_a_row_ = 0;
};

}  // namespace trireme
