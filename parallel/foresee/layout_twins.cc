#include "parallel/foresee/layout_twins.h"

#include <cmath>
#include <tuple>

namespace trireme {

bool are_twins(const FoundLayout& a, const FoundLayout& b) {
  const auto axes = [](const EngineOptions& options) {
    const PipelineOptions& pipeline = options.pipeline;
    return std::tuple(options.tensor, options.sequence, options.micro_batch, pipeline.stages,
                      pipeline.schedule, pipeline.chunks);
  };
  constexpr double kRounding = 1e-9;
  return axes(a.job.options) == axes(b.job.options) && a.peak_bytes == b.peak_bytes &&
         std::abs(a.price.step_ms - b.price.step_ms) <= kRounding * b.price.step_ms;
}

bool is_simpler(const EngineOptions& a, const EngineOptions& b) {
  const auto complexity = [](const EngineOptions& options) {
    return std::tuple(options.recompute_every, options.recompute, options.zero, options.exchange,
                      options.keep_gathered, options.accumulate_unsharded);
  };
  return complexity(a) < complexity(b);
}

}  // namespace trireme
