// parallel.timeout_s = "auto": how long a part of a step, an evaluation, a checkpoint may take, from those
// that were.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "parallel/watch/watchdog.h"

namespace trireme {

/// [Note: learned limit] For a step twice the longest of the last kWindow steps and 1.5 s. A rank that stops
/// is waited for by the others a step later at the latest, so that it is named within three steps and two
/// seconds. A limit is known after `enough` of them, the first of this process left out, which fills caches;
/// it goes up at once and down when the longest one leaves the window. The same for evaluations, of which a
/// run has few; and for checkpoints, with much more room, as file systems have moods that no processor has.
struct LimitRule {
  double factor = 2;  // of the longest
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

  /// One has ended: a step from its begin to the exchange of its results.
  void add(double seconds);
  /// Of the last kWindow; nothing before there are enough.
  std::optional<double> longest_s() const;
  std::optional<double> limit_s() const;

 private:
  LimitRule rule_;
  std::array<double, kWindow> last_{};
  std::size_t num_seen_ = 0;  // the first one included
};

/// Sets the limit of a watchdog for a part of the run to what is learned.
class PartLimit {
 public:
  /// Null: nothing is learned. The watchdog outlives this.
  PartLimit(Watchdog* watchdog, Watchdog::Part part, const LimitRule& rule)
      : watchdog_(watchdog), part_(part), learned_(rule) {}

  enum class Held : std::uint8_t { kNo, kYes };
  /// Around the part, which is no longer than others were: the limit holds.
  Watchdog::TightScope scope(Held held = Held::kYes) const {
    return {held == Held::kYes ? watchdog_ : nullptr, part_};
  }
  /// It took so long, with pauses of the whole process.
  void add(double seconds);

 private:
  Watchdog* watchdog_;
  Watchdog::Part part_;
  LearnedLimit learned_;
  double limit_s_ = 0;   // of the watchdog
  double paused_s_ = 0;  // Watchdog::paused_s() when the last one ended
};

}  // namespace trireme
