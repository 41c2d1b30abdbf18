#include "launcher/observe/rank_times.h"

#include <algorithm>
#include <cmath>

namespace trireme {
namespace {

double to_microseconds(double ms) {
  return std::round(ms * 1e3) / 1e3;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

}  // namespace

RankTimes::RankTimes(std::vector<double> busy_ms) : busy_ms_(std::move(busy_ms)) {
  if (busy_ms_.size() < 2) {
    busy_ms_.clear();
    return;
  }
  std::ranges::transform(busy_ms_, busy_ms_.begin(), to_microseconds);
  const auto slowest = std::ranges::max_element(busy_ms_);
  slowest_ = static_cast<int>(slowest - busy_ms_.begin());
  excess_ms_ = to_microseconds(above_the_others(busy_ms_, static_cast<std::size_t>(slowest_)));
}

double above_the_others(const std::vector<double>& ms, std::size_t rank) {
  std::vector<double> others = ms;
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(rank));
  return others.empty() ? 0 : ms[rank] - median(std::move(others));
}

}  // namespace trireme
