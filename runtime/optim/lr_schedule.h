// Learning rate as a function of the step.
#pragma once

#include <cstdint>

namespace trireme {

struct LrSchedule {
  enum class Kind : std::uint8_t { kConstant, kLinear, kCosine, kOneCycle, kWsd };
  Kind kind = Kind::kConstant;
  double peak = 1e-3;             // after warm-up
  double floor = 0.0;             // the final rate, see at(); unused by kConstant
  std::int64_t warmup_steps = 0;  // rises linearly from peak / (warmup + 1) to peak
  std::int64_t total_steps = 1;
  std::int64_t decay_steps = 0;  // kWsd: length of the decay; 0: a tenth of all steps

  // kOneCycle (Smith & Topin 2018, as in PyTorch): half a cosine from peak / 25 up to the peak, reached at
  // the last of warmup_steps (0: 30 % of the steps), then half a cosine down to the floor.

  // kWsd (warm-up, stable, decay; Hu et al. 2024): stays at the peak until decay_steps before the end, then
  // decays linearly. A run that stops before the decay can continue with more total steps as if it had been
  // longer from the start.

  /// The rate of update `step`, counted from 0. kLinear, kCosine and kWsd reach the floor at step
  /// total_steps, one after the last step (PyTorch's CosineAnnealingLR with T_max = total_steps -
  /// warmup_steps). kOneCycle reaches it at the last step. Later steps keep the floor (kConstant: the peak).
  double at(std::int64_t step) const;
};

}  // namespace trireme
