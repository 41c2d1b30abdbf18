#include "launcher/page/curve.h"

#include <algorithm>
#include <cmath>

namespace trireme {

void Curve::add(std::int64_t step, double value) {
  if (!std::isfinite(value)) return;
  const Point point{step, value};
  if (buckets_.empty() || buckets_.back().first / width_ != step / width_) {
    buckets_.push_back({.first = step, .low = point, .high = point, .sum = value, .count = 1});
    if (buckets_.size() > kMaxBuckets) widen();
    return;
  }
  Bucket& last = buckets_.back();
  if (value < last.low.value) last.low = point;
  if (value > last.high.value) last.high = point;
  last.sum += value;
  ++last.count;
}

void Curve::widen() {
  width_ *= 2;
  std::size_t kept = 0;
  for (std::size_t i = 1; i < buckets_.size(); ++i) {
    const Bucket& next = buckets_[i];
    Bucket& bucket = buckets_[kept];
    if (bucket.first / width_ != next.first / width_) {
      buckets_[++kept] = next;
      continue;
    }
    if (next.low.value < bucket.low.value) bucket.low = next.low;
    if (next.high.value > bucket.high.value) bucket.high = next.high;
    bucket.sum += next.sum;
    bucket.count += next.count;
  }
  buckets_.resize(kept + 1);
  if (buckets_.size() > kMaxBuckets) widen();
}

void Curve::cut(std::int64_t step) {
  while (!buckets_.empty() && buckets_.back().first >= step) buckets_.pop_back();
  if (buckets_.empty()) return;
  Bucket& last = buckets_.back();
  const bool low = last.low.step < step, high = last.high.step < step;
  if (low && high) return;
  if (!low && !high) return buckets_.pop_back();
  (low ? last.high : last.low) = low ? last.low : last.high;
  last.sum = last.low.value;
  last.count = 1;
}

std::vector<Curve::Point> Curve::extremes() const {
  std::vector<Point> points;
  points.reserve(2 * buckets_.size());
  for (const Bucket& bucket : buckets_) {
    const bool low_first = bucket.low.step <= bucket.high.step;
    points.push_back(low_first ? bucket.low : bucket.high);
    if (bucket.low.step != bucket.high.step) points.push_back(low_first ? bucket.high : bucket.low);
  }
  return points;
}

std::vector<Curve::Point> Curve::means() const {
  std::vector<Point> points;
  points.reserve(buckets_.size());
  for (const Bucket& bucket : buckets_)
    points.push_back({bucket.first, bucket.sum / static_cast<double>(bucket.count)});
  return points;
}

}  // namespace trireme
