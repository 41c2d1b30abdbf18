// The cost of a job on a described cluster: `trireme plan --cost`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "launcher/render/line_plot.h"
#include "launcher/report/foreseen_step.h"
#include "launcher/report/progress_lines.h"
#include "parallel/cost/run_cost.h"

namespace trireme {

/// `num_ranks` ranks until the fraction `until` of the steps is done.
struct GrowthWish {
  int num_ranks = 1;
  double until = 1;
};

/// "4:0.5,16": 4 ranks for half of the steps, then 16. Throws Error(kInvalidInput).
std::vector<GrowthWish> parse_growth(const std::string& text);

struct CostRequest {
  int num_ranks = 1;
  double samples = 0;            // total; 0: the job's train.steps
  std::optional<double> save_s;  // duration of saving a checkpoint, measured
  std::vector<GrowthWish> growth;
  std::pair<int, int> autoscale{0, 0};  // minimum and maximum ranks; 0: no autoscaling
  double deadline_hours = 0;            // for autoscale
  std::uint64_t seed = 1;
  TellProgress on_progress = {};
};

struct CostRow {
  std::string plan;           // "16 ranks", "4, then 16 from 50 %"
  int num_ranks = 1;          // constant, or the maximum
  double deadline_hours = 0;  // 0: none
  RunCost cost = {};
  /// For a constant number of ranks; 0: no interruptions, or the number varies.
  double mtbf_hours = 0;
  double young_s = 0, daly_s = 0, expected_hours = 0;  // optimal intervals; Daly's expectation
};

struct CostReport {
  std::string cluster, device;
  double price_per_hour = 0, steps = 0, checkpoint_gb = 0;
  std::vector<ForeseenStep> points;  // by number of ranks
  std::vector<CostRow> rows;
};

/// `job` is resolved and keeps its layout except for the data ranks. Throws Error(kInvalidInput) if the
/// device has no price, or a number of ranks has no layout.
CostReport cost_of_job(const JobConfig& job, const ClusterOfRanks& cluster_of, const CostRequest& request);

std::string to_text(const CostReport& report);
nlohmann::ordered_json to_json(const CostReport& report);

/// Cost by number of ranks, 1 to the maximum by doublings, as far as the job has layouts for them.
LinePlot cost_plot(const JobConfig& job, const ClusterOfRanks& cluster_of, const CostRequest& request);

}  // namespace trireme
