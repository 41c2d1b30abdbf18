#include "runtime/optim/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace trireme {

double LrSchedule::at(std::int64_t step) const {
  if (step < warmup_steps)
    return peak * static_cast<double>(step + 1) / static_cast<double>(warmup_steps + 1);
  if (kind == Kind::kConstant) return peak;
  const double span = static_cast<double>(std::max<std::int64_t>(1, total_steps - warmup_steps));
  const double progress = std::min(1.0, static_cast<double>(step - warmup_steps) / span);
  const double share =
      kind == Kind::kLinear ? 1.0 - progress : 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  return floor + share * (peak - floor);
}

}  // namespace trireme
