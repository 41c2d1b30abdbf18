// train.max_minutes: whether a run has to stop so that it ends, with a checkpoint, before its limit.
#pragma once

#include <algorithm>
#include <chrono>

namespace trireme {

/// Knows how long steps and checkpoints took, and keeps time for another one of both, twice over. Where no
/// checkpoint was saved yet it keeps a twentieth of the limit for it, a minute at most.
class TimeLimit {
 public:
  using Seconds = std::chrono::duration<double>;

  /// 0: there is none.
  explicit TimeLimit(double max_minutes) : limit_(max_minutes * 60.0) {}

  /// `elapsed` since the run began: asked after each step, with whatever else was between two.
  bool is_up(Seconds elapsed);
  void saved(Seconds took) { longest_save_ = std::max(longest_save_, took); }

 private:
  Seconds limit_;
  Seconds last_{0}, longest_step_{0}, longest_save_{0};
};

}  // namespace trireme
