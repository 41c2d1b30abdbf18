// One curve of a run, thinned while it grows.
//
// [Note: thinned curves] Steps fall into buckets of equal width, a power of two. A bucket keeps its lowest
// point, its highest point and its mean, so a spike of one step in a million stays visible. When there are
// too many buckets, the width doubles. A curve therefore takes the same memory, and a page the same time,
// however long the run.
#pragma once

#include <cstdint>
#include <vector>

namespace trireme {

class Curve {
 public:
  static constexpr std::size_t kMaxBuckets = 1024;

  struct Point {
    std::int64_t step = 0;
    double value = 0;
  };

  /// Steps must not decrease. Values that are not finite are dropped.
  void add(std::int64_t step, double value);
  /// Drops the steps from `step` on, because the run repeats them. A bucket that contains both keeps its
  /// older extremes; its mean restarts.
  void cut(std::int64_t step);

  /// Lowest and highest point of each bucket, by step: at most 2 * kMaxBuckets.
  std::vector<Point> extremes() const;
  /// Mean of each bucket, at its first step. Curves with the same steps have means at the same steps, so they
  /// can be stacked.
  std::vector<Point> means() const;
  /// True where one bucket may cover several steps.
  bool is_thinned() const { return width_ > 1; }

 private:
  struct Bucket {
    std::int64_t first = 0;  // step
    Point low, high;
    double sum = 0;
    std::int64_t count = 0;
  };
  void widen();

  std::int64_t width_ = 1;
  std::vector<Bucket> buckets_;
};

}  // namespace trireme
