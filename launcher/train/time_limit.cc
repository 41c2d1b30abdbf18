#include "launcher/train/time_limit.h"

#include <algorithm>

namespace trireme {

bool TimeLimit::is_up(Seconds elapsed) {
  if (limit_ <= Seconds(0)) return false;
  longest_step_ = std::max(longest_step_, elapsed - last_);
  last_ = elapsed;
  constexpr Seconds kMinute{60};
  const Seconds save = longest_save_ > Seconds(0) ? 2 * longest_save_ : std::min(limit_ / 20, kMinute);
  return elapsed + 2 * longest_step_ + save >= limit_;
}

}  // namespace trireme
