#include "launcher/train/learned_limit.h"

#include <algorithm>

namespace trireme {

void LearnedLimit::add_step(double seconds) {
  if (num_seen_++ > 0) steps_[(num_seen_ - 2) % kWindow] = seconds;
}

std::optional<double> LearnedLimit::longest_step_s() const {
  if (num_seen_ < kEnough + 1) return std::nullopt;
  return *std::ranges::max_element(steps_);
}

std::optional<double> LearnedLimit::limit_s() const {
  const auto longest = longest_step_s();
  return longest ? std::optional(2 * *longest + kMargin_s) : std::nullopt;
}

}  // namespace trireme
