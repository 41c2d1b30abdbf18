// The layouts that `trireme plan --search` finds for a job on a cluster.
#pragma once

#include <string>
#include <vector>

#include "launcher/config/config.h"
#include "launcher/report/plan_time.h"
#include "launcher/report/progress_lines.h"
#include "parallel/foresee/layout_search.h"

namespace trireme {

struct LayoutsRequest {
  int num_ranks = 1, ranks_per_machine = 1;
  bool varies_micro_batch = false;
  HostMap hosts = {};            // of every rank; empty: by ranks_per_machine
  std::int64_t limit_bytes = 0;  // of a rank; 0: parallel.memory_limit, else the device's memory
  std::size_t most = 10;         // layouts to find
  TellProgress on_progress = {};
};

struct LayoutsReport {
  std::string cluster, device;
  int num_ranks = 1;
  std::int64_t limit_bytes = 0;
  std::int64_t global_batch = 1, micro_batch = 1;  // of the job
  double price_per_hour = 0;                       // of a device
  FoundLayouts found;
  std::vector<JobConfig> configs;  // of found.best: the job with each layout
  std::vector<std::string> fixed;  // keys of the layout that were kept
};

/// Of a resolved job. What it says of its layout has no effect, but with parallel.layout = "auto", when it is
/// kept.
LayoutsReport find_layouts(const JobConfig& job, const ClusterChoice& cluster, const LayoutsRequest& request);

/// Why there is no layout, where none was found.
std::string describe_none(const LayoutsReport& report);

std::string to_text(const LayoutsReport& report);
std::string to_json(const LayoutsReport& report);

}  // namespace trireme
