#include "launcher/train/learned_limit.h"

#include <fmt/core.h>

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

// Small changes are left: messages would not be the better for them.
void StepLimit::add_step(double seconds) {
  if (watchdog_ == nullptr) return;
  learned_.add_step(seconds);
  const auto limit_s = learned_.limit_s();
  if (!limit_s || (*limit_s <= limit_s_ && *limit_s > 0.9 * limit_s_)) return;
  limit_s_ = *limit_s;
  watchdog_->set_tight_limit(
      *limit_s, fmt::format(", learned from steps of up to {:.2f} s", *learned_.longest_step_s()));
}

}  // namespace trireme
