// The plan of a job's step, as `trireme plan --json` prints it.
#pragma once

#include <optional>
#include <string>

#include "launcher/config/config.h"

namespace trireme {

struct PlanRequest {
  int num_ranks = 1;
  int ranks_per_machine = 0;           // 0: all
  std::optional<std::string> cluster;  // file of a description: the step is timed on it
  std::string device;                  // of the cluster, if it has several
};

/// JSON. Throws Error(kUnsupported) for choices that need measurements: parallel.layout = "auto" and
/// parallel.pipeline_cut = "measured".
std::string plan_json(JobConfig config, const PlanRequest& request);

}  // namespace trireme
