// The layouts that `trireme plan --search` finds for a job on a cluster.
#pragma once

#include <nlohmann/json_fwd.hpp>
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
  HostMap hosts = {};            // of all ranks; empty: by ranks_per_machine
  std::int64_t limit_bytes = 0;  // per rank; 0: parallel.memory_limit, else the device's memory
  std::size_t most = 10;         // maximum number of layouts
  TellProgress on_progress = {};
};

struct LayoutsReport {
  std::string cluster, device;
  int num_ranks = 1;
  std::int64_t limit_bytes = 0;
  std::int64_t global_batch = 1, micro_batch = 1;  // of the job
  double price_per_hour = 0;                       // per device
  FoundLayouts found;
  std::vector<JobConfig> configs;  // the job with each layout of found.best
  std::vector<std::string> fixed;  // layout keys that were not varied
};

/// `job` is resolved. Its layout is ignored, except with parallel.layout = "auto", when the given keys are
/// kept.
LayoutsReport find_layouts(const JobConfig& job, const ClusterChoice& cluster, const LayoutsRequest& request);

/// "tensor = 2, pipeline = 1, 4 data rank(s), zero = 1, recompute -, micro_batch = 4".
std::string layout_text(const PlannedJob& job);

/// The reason why no layout was found.
std::string describe_none(const LayoutsReport& report);

std::string to_text(const LayoutsReport& report);
nlohmann::ordered_json to_json(const LayoutsReport& report);

}  // namespace trireme
