// A job's step on so many ranks of a described cluster, in the layout that the job has.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/config/config.h"
#include "launcher/report/plan_time.h"
#include "launcher/report/progress_lines.h"

namespace trireme {

struct ForeseenStep {
  int num_ranks = 1;
  std::string device;           // of the cluster
  PlanPrice price;              // without its timeline
  std::int64_t peak_bytes = 0;  // of the rank that needs most
  std::int64_t limit_bytes = 0;

  bool fits() const { return peak_bytes <= limit_bytes; }
};

/// Of a resolved job, with the cut into stages and the way to accumulate that training would choose; one with
/// parallel.layout = "auto" has its fastest layout. Throws Error(kInvalidInput)
/// where it has no such layout.
ForeseenStep foresee_step(const JobConfig& job, const ClusterChoice& cluster, int num_ranks,
                          const TellProgress& on_progress = {});

/// 4, 8, 16, ... up to `last`.
std::vector<int> doublings(int first, int last);

}  // namespace trireme
