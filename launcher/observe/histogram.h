// Counts of values by upper bound, as Prometheus's histograms have them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace trireme {

struct Histogram {
  /// Seconds. Steps of CPUs and GPUs take from a millisecond to minutes: three bounds for each factor of ten.
  static constexpr std::array<double, 17> kBounds = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5,
                                                     1,     2,     5,     10,   20,   50,   100, 200};

  std::array<std::int64_t, kBounds.size() + 1>
      counts{};  // of values up to each bound, and of those above all
  double sum = 0;
  std::int64_t count = 0;

  void observe(double value) {
    // Of a value that is not a number nothing is below: it counts with the largest.
    const auto bound = std::ranges::find_if(kBounds, [value](double b) { return value <= b; });
    ++counts[static_cast<std::size_t>(bound - kBounds.begin())];
    sum += value;
    ++count;
  }
};

}  // namespace trireme
