// train.max_minutes: decides when a run must stop, so that it saves a checkpoint and ends within its limit.
#pragma once

#include <algorithm>
#include <chrono>

namespace trireme {

/// Tracks the durations of steps and checkpoints. Reserves twice the time of the longest step and of the
/// longest checkpoint. Before the first checkpoint, it reserves a twentieth of the limit for one, at most a
/// minute.
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
