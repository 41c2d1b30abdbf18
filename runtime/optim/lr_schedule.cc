#include "runtime/optim/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace trireme {

namespace {

// Half a cosine between `from` and `to`.
double half_cosine(double from, double to, double progress) {
  return to + 0.5 * (from - to) * (1.0 + std::cos(std::numbers::pi * std::clamp(progress, 0.0, 1.0)));
}

double one_cycle(const LrSchedule& schedule, std::int64_t step) {
  constexpr double kStartShare = 1.0 / 25.0, kRisingShare = 0.3;
  const auto total = static_cast<double>(schedule.total_steps);
  const double rising =
      schedule.warmup_steps > 0 ? static_cast<double>(schedule.warmup_steps) : kRisingShare * total;
  const double top = rising - 1.0, last = total - 1.0, at = static_cast<double>(step);
  if (at <= top) return half_cosine(kStartShare * schedule.peak, schedule.peak, at / std::max(top, 1e-9));
  return half_cosine(schedule.peak, schedule.floor, (at - top) / std::max(last - top, 1e-9));
}

}  // namespace

double LrSchedule::at(std::int64_t step) const {
  if (kind == Kind::kOneCycle) return one_cycle(*this, step);
  if (step < warmup_steps)
    return peak * static_cast<double>(step + 1) / static_cast<double>(warmup_steps + 1);
  if (kind == Kind::kConstant) return peak;
  std::int64_t first = warmup_steps;  // the first step of the decay
  if (kind == Kind::kWsd) first = total_steps - (decay_steps > 0 ? decay_steps : total_steps / 10);
  const double span = static_cast<double>(std::max<std::int64_t>(1, total_steps - first));
  const double progress = std::clamp(static_cast<double>(step - first) / span, 0.0, 1.0);
  const double share =
      kind == Kind::kCosine ? 0.5 * (1.0 + std::cos(std::numbers::pi * progress)) : 1.0 - progress;
  return floor + share * (peak - floor);
}

}  // namespace trireme
