// Predicts a job's step on a described cluster, in the job's layout.
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
  std::string device;           // in the cluster
  PlanPrice price;              // without its timeline
  std::int64_t peak_bytes = 0;  // of the rank with the largest peak
  std::int64_t limit_bytes = 0;

  bool fits() const { return peak_bytes <= limit_bytes; }
};

/// `job` is resolved; the cut into stages and "auto" fields are chosen as in training. With parallel.layout =
/// "auto" the fastest layout is used. Throws Error(kInvalidInput) if there is no such layout.
ForeseenStep foresee_step(const JobConfig& job, const ClusterChoice& cluster, int num_ranks,
                          const TellProgress& on_progress = {});

/// 4, 8, 16, ... up to `last`.
std::vector<int> doublings(int first, int last);

}  // namespace trireme
