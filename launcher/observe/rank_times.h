// Busy times of the ranks in a step, which show the rank that the others wait for.
#pragma once

#include <vector>

namespace trireme {

/// Milliseconds by rank, without waiting for others; empty if not measured, or for one rank.
class RankTimes {
 public:
  /// metrics.jsonl lists the times of all ranks up to this number, else only the slowest.
  static constexpr std::size_t kMaxListed = 256;

  RankTimes() = default;
  /// Times are rounded to microseconds.
  explicit RankTimes(std::vector<double> busy_ms);

  bool known() const { return !busy_ms_.empty(); }
  const std::vector<double>& busy_ms() const { return busy_ms_; }
  bool is_listed() const { return known() && busy_ms_.size() <= kMaxListed; }
  /// The lowest rank on ties.
  int slowest() const { return slowest_; }
  /// Time of the slowest above the median of the others; at least 0.
  double excess_ms() const { return excess_ms_; }

 private:
  std::vector<double> busy_ms_;
  int slowest_ = 0;
  double excess_ms_ = 0;
};

/// Time of `rank` above the median of the others; 0 if there are no others.
double above_the_others(const std::vector<double>& ms, std::size_t rank);

}  // namespace trireme
