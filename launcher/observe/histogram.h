// A cumulative-bucket histogram, as in Prometheus.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace trireme {

struct Histogram {
  /// Seconds. Steps on CPUs and GPUs take a millisecond to minutes: three bounds per decade.
  static constexpr std::array<double, 17> kBounds = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5,
                                                     1,     2,     5,     10,   20,   50,   100, 200};

  // One count for each bound, and one for values above all bounds.
  std::array<std::int64_t, kBounds.size() + 1> counts{};
  double sum = 0;
  std::int64_t count = 0;

  void observe(double value) {
    // NaN is counted in the +Inf bucket.
    const auto bound = std::ranges::find_if(kBounds, [value](double b) { return value <= b; });
    ++counts[static_cast<std::size_t>(bound - kBounds.begin())];
    sum += value;
    ++count;
  }
};

}  // namespace trireme
