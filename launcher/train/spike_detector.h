// When a loss or a gradient norm is a spike, from the steps before it.
//
// [Note: spikes] A value is high where it exceeds median + 10 * max(1.4826 * MAD, median / 20) of the values
// of the last kWindow steps, itself left out, once there are kEnough: MAD is the median of the distances from
// the median, which is 1/1.4826 of a standard deviation where values are normal. A spike begins with a step
// that is high after one that was not, in the loss or in the gradient norm before clipping. High values enter
// the window, too: the median stands for the most part of it, and a run that stays at another level comes to
// know it. Steps that were skipped, and values that are not finite, are left out. All of it follows from
// values that every rank has, the same on every layout; so a run that goes on from a checkpoint gives the
// values of the steps before it first, and comes to the same decisions.
//
// Rejected: mean and standard deviation, which the first spike of a window spoils for the next; a threshold
// on the loss's difference, which is not one of scale.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>

namespace trireme {

class SpikeDetector {
 public:
  static constexpr std::size_t kWindow = 64, kEnough = 16;
  /// Steps whose values decide what a detector says next.
  static constexpr std::size_t kMemory = 2 * kWindow;

  /// The next step. Where a spike begins with it: "the gradient norm is 85.1; of the last 64 steps the median
  /// is 2.3, and above 6.9 it is a spike".
  std::optional<std::string> add(double loss, double grad_norm);
  /// The same of a step that is not added.
  std::optional<std::string> look(double loss, double grad_norm) const;

 private:
  struct Series {
    std::deque<double> values;
    bool is_high = false;  // the last one

    /// Nothing while too few values are known.
    std::optional<double> bound() const;
    /// Where a spike begins with the value.
    std::optional<std::string> look(const char* name, double value) const;
    void add(double value);
  };
  Series loss_, grad_norm_;
};

}  // namespace trireme
