// How long each rank was busy in a step: which one the others wait for.
#pragma once

#include <vector>

namespace trireme {

/// By rank, in milliseconds, without waiting for others; empty where that is not measured, or of one rank.
class RankTimes {
 public:
  /// Lines of metrics.jsonl have the times of all ranks up to so many; of more, the slowest alone.
  static constexpr std::size_t kMaxListed = 256;

  RankTimes() = default;
  /// Times are rounded to microseconds.
  explicit RankTimes(std::vector<double> busy_ms);

  bool known() const { return !busy_ms_.empty(); }
  const std::vector<double>& busy_ms() const { return busy_ms_; }
  bool is_listed() const { return known() && busy_ms_.size() <= kMaxListed; }
  /// The first among equals.
  int slowest() const { return slowest_; }
  /// The time of the slowest above the median of all others; 0 or more.
  double excess_ms() const { return excess_ms_; }

 private:
  std::vector<double> busy_ms_;
  int slowest_ = 0;
  double excess_ms_ = 0;
};

/// The time of a rank above the median of all others; 0 where there is no other.
double above_the_others(const std::vector<double>& ms, std::size_t rank);

}  // namespace trireme
