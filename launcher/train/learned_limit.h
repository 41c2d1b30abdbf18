// parallel.timeout_s = "auto": how long a part of a step may take, from the steps that were.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "parallel/watch/watchdog.h"

namespace trireme {

/// [Note: learned limit] Twice the longest of the last kWindow steps and kMargin_s. A rank that stops is
/// waited for by the others a step later at the latest, so that it is named within three steps and two
/// seconds. A limit is known after kEnough steps, the first of this process left out, which fills caches; it
/// goes up at once and down when the longest step leaves the window.
class LearnedLimit {
 public:
  static constexpr std::size_t kWindow = 32, kEnough = 8;
  static constexpr double kMargin_s = 1.5;

  /// A step has ended, from its begin to the exchange of its results.
  void add_step(double seconds);
  /// Of the last kWindow steps; nothing before kEnough.
  std::optional<double> longest_step_s() const;
  std::optional<double> limit_s() const;

 private:
  std::array<double, kWindow> steps_{};
  std::size_t num_seen_ = 0;  // the first one included
};

/// Sets the limit of a watchdog to what is learned.
class StepLimit {
 public:
  /// Null: nothing is learned. The watchdog outlives this.
  explicit StepLimit(Watchdog* watchdog) : watchdog_(watchdog) {}

  /// For a Watchdog::TightScope around what is a part of every step; null where nothing is learned.
  Watchdog* watchdog() const { return watchdog_; }
  void add_step(double seconds);

 private:
  Watchdog* watchdog_;
  LearnedLimit learned_;
  double limit_s_ = 0;  // of the watchdog
};

}  // namespace trireme
