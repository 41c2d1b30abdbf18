// train.max_minutes: decides when a run must stop to end, with a checkpoint, within its limit.
#pragma once

#include <algorithm>
#include <chrono>

namespace trireme {

/// Tracks the duration of steps and checkpoints, and reserves twice the time of one more of both. Before the
/// first checkpoint it reserves one twentieth of the limit for it, at most a minute.
class TimeLimit {
 public:
  using Seconds = std::chrono::duration<double>;

  /// 0: no limit.
  explicit TimeLimit(double max_minutes) : limit_(max_minutes * 60.0) {}

  /// `elapsed`: since the run began. Call after each step; work between two steps counts as part of the step.
  bool is_up(Seconds elapsed);
  void saved(Seconds took) { longest_save_ = std::max(longest_save_, took); }

 private:
  Seconds limit_;
  Seconds last_{0}, longest_step_{0}, longest_save_{0};
};

}  // namespace trireme
