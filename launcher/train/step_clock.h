// The duration of each training step, where a step's results are read after the next step was enqueued.
//
// For the host, a step lasts from the reading of the step before, or from its own beginning if that is later,
// to its own reading. So pauses between steps, such as evaluations and checkpoints, are left out. The time to
// enqueue a step plus the wait for its results would count time twice: a full launch queue blocks the host
// while the device still computes the step before. For the same reason the host reads a step late that
// follows a pause, and the last step before a pause early. There the device's own time of the step counts, if
// it is known.
#pragma once

#include <algorithm>
#include <chrono>
#include <deque>
#include <optional>

namespace trireme {

class StepClock {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;

  /// The next step is about to be enqueued.
  void begin(TimePoint now) { began_.push_back(now); }
  /// The results of the oldest step that has not ended were read. Returns its duration. `device_ms`: as
  /// measured by the device.
  double end_ms(TimePoint now, std::optional<double> device_ms = std::nullopt) {
    const bool after_pause = began_.front() > last_end_;
    const TimePoint began = std::max(began_.front(), last_end_);
    began_.pop_front();
    last_end_ = now;
    const double host_ms = std::chrono::duration<double, std::milli>(now - began).count();
    if (!device_ms) return host_ms;
    return after_pause ? *device_ms : std::max(host_ms, *device_ms);
  }
  /// Leaves out work within a step that is not part of it.
  void exclude(Duration work) {
    for (TimePoint& began : began_) began += work;
    last_end_ += work;
  }

 private:
  std::deque<TimePoint> began_;  // of steps that have not ended
  TimePoint last_end_{};
};

}  // namespace trireme
