#include "launcher/train/learned_limit.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

namespace trireme {

void LearnedLimit::add(double seconds) {
  if (num_seen_++ > 0) last_[(num_seen_ - 2) % kWindow] = seconds;
}

std::optional<double> LearnedLimit::longest_s() const {
  if (num_seen_ < rule_.enough + 1) return std::nullopt;
  return *std::ranges::max_element(last_);
}

std::optional<double> LearnedLimit::limit_s() const {
  const auto longest = longest_s();
  return longest ? std::optional(rule_.factor * *longest + rule_.margin_s) : std::nullopt;
}

// Small changes of the limit are not passed on: they would not improve detection.
void PartLimit::add(double seconds) {
  if (watchdog_ == nullptr) return;
  const double paused_s = watchdog_->paused_s();
  learned_.add(std::max(0.0, seconds - (paused_s - paused_s_)));
  paused_s_ = paused_s;
  const auto limit_s = learned_.limit_s();
  if (!limit_s || (*limit_s <= limit_s_ && *limit_s > 0.9 * limit_s_)) return;
  limit_s_ = *limit_s;
  constexpr std::array kParts = {"steps", "evaluations", "checkpoints"};
  watchdog_->set_tight_limit(part_, *limit_s,
                             fmt::format(", learned from {} of up to {:.2f} s",
                                         kParts[static_cast<std::size_t>(part_)], *learned_.longest_s()));
}

}  // namespace trireme
