// Detects spikes of the loss and the gradient norm from the steps before.
//
// [Note: spikes] A value is high if it exceeds median + 10 * max(1.4826 * MAD, median / 20) of the last
// kWindow values before it, once there are kEnough. MAD is the median of the distances from the median; for
// normal values it is 1/1.4826 of a standard deviation. A spike begins at a step that is high, in the loss or
// in the gradient norm before clipping, after a step that was not. High values enter the window too: the
// median is robust to a few, and adapts to a run that stays at another level. Skipped steps and non-finite
// values are left out. All inputs are the same on every rank and layout. The window is saved in checkpoints,
// so a resumed run makes the same decisions.
//
// Rejected: mean and standard deviation, which one spike in the window distorts; and a threshold on the
// difference of losses, which depends on their scale.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "launcher/state/spike_state.h"

namespace trireme {

class SpikeDetector {
 public:
  static constexpr std::size_t kWindow = 64, kEnough = 16;

  SpikeDetector() = default;
  SpikeDetector(SpikeSeries loss, SpikeSeries grad_norm)
      : loss_(std::move(loss)), grad_norm_(std::move(grad_norm)) {}

  /// Adds the next step. If a spike begins with it, returns a text: "the gradient norm is 85.1; of the last
  /// 64 steps the median is 2.3, and above 6.9 it is a spike".
  std::optional<std::string> add(double loss, double grad_norm);
  /// Returns the same text without adding the step.
  std::optional<std::string> look(double loss, double grad_norm) const;

  const SpikeSeries& loss() const { return loss_; }
  const SpikeSeries& grad_norm() const { return grad_norm_; }

 private:
  SpikeSeries loss_, grad_norm_;
};

}  // namespace trireme
