#include "parallel/foresee/layout_twins.h"

#include <cmath>
#include <tuple>

namespace trireme {

bool are_twins(const FoundLayout& a, const FoundLayout& b) {
  const auto axes = [](const EngineOptions& options) {
    const Layout& l = options.layout;
    return std::tuple(l.tensor, l.sequence, options.micro_batch, l.pipeline, l.schedule, l.chunks);
  };
  constexpr double kRounding = 1e-9;
  return axes(a.job.options) == axes(b.job.options) && a.peak_bytes == b.peak_bytes &&
         std::abs(a.price.step_ms - b.price.step_ms) <= kRounding * b.price.step_ms;
}

bool is_simpler(const Layout& a, const Layout& b) {
  const auto complexity = [](const Layout& l) {
    return std::tuple(l.recompute_every, l.recompute, l.zero, l.exchange, l.keep_gathered,
                      l.accumulate_unsharded);
  };
  return complexity(a) < complexity(b);
}

}  // namespace trireme
