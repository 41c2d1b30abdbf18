// When a loss or a gradient norm is a spike, from the steps before it.
//
// [Note: spikes] A value is high where it exceeds median + 10 * max(1.4826 * MAD, median / 20) of the values
// of the last kWindow steps, itself left out, once there are kEnough: MAD is the median of the distances from
// the median, which is 1/1.4826 of a standard deviation where values are normal. A spike begins with a step
// that is high after one that was not, in the loss or in the gradient norm before clipping. High values enter
// the window, too: the median stands for the most part of it, and a run that stays at another level comes to
// know it. Steps that were skipped, and values that are not finite, are left out. All of it follows from
// values that every rank has, the same on every layout. The window is a part of a checkpoint, so a run that
// goes on from one comes to the same decisions, wherever its output folder is.
//
// Rejected: mean and standard deviation, which the first spike of a window spoils for the next; a threshold
// on the loss's difference, which is not one of scale.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "launcher/train/spike_state.h"

namespace trireme {

class SpikeDetector {
 public:
  static constexpr std::size_t kWindow = 64, kEnough = 16;

  SpikeDetector() = default;
  SpikeDetector(SpikeSeries loss, SpikeSeries grad_norm)
      : loss_(std::move(loss)), grad_norm_(std::move(grad_norm)) {}

  /// The next step. Where a spike begins with it: "the gradient norm is 85.1; of the last 64 steps the median
  /// is 2.3, and above 6.9 it is a spike".
  std::optional<std::string> add(double loss, double grad_norm);
  /// The same of a step that is not added.
  std::optional<std::string> look(double loss, double grad_norm) const;

  const SpikeSeries& loss() const { return loss_; }
  const SpikeSeries& grad_norm() const { return grad_norm_; }

 private:
  SpikeSeries loss_, grad_norm_;
};

}  // namespace trireme
