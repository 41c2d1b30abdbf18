// Policies for the number of ranks of a run: fixed, growing, and scaled so as to end in time.
#pragma once

#include <vector>

#include "parallel/cost/run_simulate.h"

namespace trireme {

/// `point` from the first step to the last.
RankPolicy fixed_ranks(std::size_t point);

/// A part of a run that ends where `until` of its steps are done, 0 to 1.
struct GrowthPart {
  std::size_t point = 0;
  double until = 1;
};

/// The parts one after the other. Throws Error(kInvalidInput) where `until` does not rise to 1.
RankPolicy growing_ranks(std::vector<GrowthPart> parts);

/// The fewest ranks with which the rest of the steps ends by the deadline, if nothing interrupts it more than
/// `reserve` of the time that it takes; where none does, the fastest. So a run grows when interruptions have
/// put it behind, and shrinks when it is ahead.
RankPolicy autoscaled_ranks(std::vector<ScalePoint> points, double steps, double deadline_s,
                            double reserve = 0.1);

}  // namespace trireme
