#include "parallel/cost/rank_policy.h"

#include <algorithm>

#include "runtime/base/error.h"

namespace trireme {

RankPolicy fixed_ranks(std::size_t point) {
  return [point](double, double) { return point; };
}

RankPolicy growing_ranks(std::vector<GrowthPart> parts) {
  double before = 0;
  for (const GrowthPart& part : parts) {
    TRIREME_CHECK(part.until > before && part.until <= 1,
                  "a part ends at {} of the steps, the part before it at {}: the ends must increase up to 1",
                  part.until, before);
    before = part.until;
  }
  TRIREME_CHECK(before == 1, "the last part ends at {} of the steps: it must end at 1", before);
  return [parts = std::move(parts)](double share_done, double) {
    for (const GrowthPart& part : parts) {
      if (share_done < part.until) return part.point;
    }
    return parts.back().point;
  };
}

RankPolicy autoscaled_ranks(std::vector<ScalePoint> points, double steps, double deadline_s, double reserve) {
  TRIREME_CHECK(!points.empty() && deadline_s > 0,
                "autoscaling needs a deadline above 0 s and a number of ranks, got {} s and {} numbers",
                deadline_s, points.size());
  return [points = std::move(points), steps, deadline_s, reserve](double share_done, double elapsed_s) {
    const auto needs_s = [&](const ScalePoint& point) {
      return (1 - share_done) * steps * point.step_s * (1 + reserve);
    };
    std::size_t fewest = points.size();
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (elapsed_s + needs_s(points[i]) > deadline_s) continue;
      if (fewest == points.size() || points[i].num_ranks < points[fewest].num_ranks) fewest = i;
    }
    if (fewest < points.size()) return fewest;
    const auto fastest = std::ranges::min_element(points, {}, &ScalePoint::step_s);
    return static_cast<std::size_t>(fastest - points.begin());
  };
}

}  // namespace trireme
