// The layouts that `trireme plan --search` finds for a job on a cluster.
#pragma once

#include <string>
#include <vector>

#include "launcher/config/config.h"
#include "launcher/report/plan_time.h"
#include "parallel/foresee/layout_search.h"

namespace trireme {

struct LayoutsRequest {
  int num_ranks = 1, ranks_per_machine = 1;
  bool varies_micro_batch = false;
};

struct LayoutsReport {
  std::string cluster, device;
  int num_ranks = 1;
  std::int64_t limit_bytes = 0;
  double price_per_hour = 0;  // of a device
  FoundLayouts found;
  std::vector<JobConfig> configs;  // of found.best: the job with each layout
};

/// Of a resolved job; what it says of its layout has no effect. A rank may use parallel.memory_limit, else
/// the device's memory.
LayoutsReport find_layouts(const JobConfig& job, const ClusterChoice& cluster, const LayoutsRequest& request);

std::string to_text(const LayoutsReport& report);
std::string to_json(const LayoutsReport& report);

}  // namespace trireme
