// Policies for the number of ranks of a run: fixed, growing, and scaled to meet a deadline.
#pragma once

#include <vector>

#include "parallel/cost/run_simulate.h"

namespace trireme {

/// `point` for the whole run.
RankPolicy fixed_ranks(std::size_t point);

/// A part of a run that ends when the share `until` of its steps is done, 0 to 1.
struct GrowthPart {
  std::size_t point = 0;
  double until = 1;
};

/// The parts one after the other. Throws Error(kInvalidInput) unless `until` rises to 1.
RankPolicy growing_ranks(std::vector<GrowthPart> parts);

/// The smallest number of ranks with which the remaining steps end by the deadline, if interruptions add at
/// most `reserve` of the time; if none does, the fastest. A run thus grows after interruptions have delayed
/// it, and shrinks when it is ahead.
RankPolicy autoscaled_ranks(std::vector<ScalePoint> points, double steps, double deadline_s,
                            double reserve = 0.1);

}  // namespace trireme
