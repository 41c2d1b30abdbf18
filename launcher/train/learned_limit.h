// parallel.timeout_s = "auto": limits on the duration of steps, evaluations and checkpoints, learned from
// earlier ones.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "parallel/watch/watchdog.h"

namespace trireme {

/// [Note: learned limit] The limit of a step is twice the longest of the last kWindow steps, plus 1.5 s. The
/// other ranks wait for a stopped rank one step later at the latest, so it is named within three steps and
/// two seconds. A limit applies after `enough` samples; the first sample of a process is left out, because it
/// fills caches. The limit rises at once, and falls when the longest sample leaves the window. Evaluations
/// follow the same rule with fewer samples. Checkpoints have a much larger margin, because file systems vary
/// more than processors.
struct LimitRule {
  double factor = 2;  // times the longest
  double margin_s = 1.5;
  std::size_t enough = 8;
};
inline constexpr LimitRule kStepRule{};
inline constexpr LimitRule kEvaluationRule{.factor = 2, .margin_s = 5, .enough = 2};
inline constexpr LimitRule kCheckpointRule{.factor = 10, .margin_s = 60, .enough = 2};

class LearnedLimit {
 public:
  static constexpr std::size_t kWindow = 32;

  explicit LearnedLimit(const LimitRule& rule = kStepRule) : rule_(rule) {}

  /// Adds the duration of a part: a step lasts from its begin to the exchange of its results.
  void add(double seconds);
  /// Longest of the last kWindow; null before there are enough.
  std::optional<double> longest_s() const;
  std::optional<double> limit_s() const;

 private:
  LimitRule rule_;
  std::array<double, kWindow> last_{};
  std::size_t num_seen_ = 0;  // the first one included
};

/// Applies the learned limit to one part of the run in a watchdog.
class PartLimit {
 public:
  /// A null watchdog learns nothing. The watchdog outlives this.
  PartLimit(Watchdog* watchdog, Watchdog::Part part, const LimitRule& rule)
      : watchdog_(watchdog), part_(part), learned_(rule) {}

  enum class Held : std::uint8_t { kNo, kYes };
  /// Create around the part. With Held::kYes the limit applies to it.
  Watchdog::TightScope scope(Held held = Held::kYes) const {
    return {held == Held::kYes ? watchdog_ : nullptr, part_};
  }
  /// `seconds`: duration of the part, including pauses of the whole process.
  void add(double seconds);

 private:
  Watchdog* watchdog_;
  Watchdog::Part part_;
  LearnedLimit learned_;
  double limit_s_ = 0;   // as set in the watchdog
  double paused_s_ = 0;  // Watchdog::paused_s() at the end of the last part
};

}  // namespace trireme
