// One curve of a run, thinned while it grows.
//
// [Note: thinned curves] Steps fall into buckets of equal width, a power of two. A bucket keeps its lowest
// and its highest point, so a spike of one step in a million is still seen, and the mean. When there are too
// many buckets the width doubles. So a curve takes the same memory, and a page the same time, however long
// the run.
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

  /// Steps do not fall. What is not finite is left out.
  void add(std::int64_t step, double value);
  /// Forgets steps from `step` on, which a run makes anew. A bucket that holds both keeps what is older, its
  /// mean excepted.
  void cut(std::int64_t step);

  /// Lowest and highest point of each bucket, by step: at most 2 * kMaxBuckets.
  std::vector<Point> extremes() const;
  /// Mean of each bucket, at its first step. Curves of the same steps have them at the same steps: they can
  /// be stacked.
  std::vector<Point> means() const;
  /// A point may stand for several steps.
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
