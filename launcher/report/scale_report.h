// Scaling of a job over ranks of a described cluster: `trireme plan --scale`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/render/line_plot.h"
#include "launcher/report/foreseen_step.h"
#include "launcher/report/progress_lines.h"

namespace trireme {

struct ScaleRow {
  int num_ranks = 1;
  /// Strong scaling keeps the job's global batch; weak scaling grows it with the ranks. Null: refused.
  std::optional<ForeseenStep> strong, weak;
  std::string strong_refusal, weak_refusal;           // the reasons
  double strong_efficiency = 0, weak_efficiency = 0;  // samples/s per rank, relative to the first row
};

struct ScaleReport {
  std::string cluster, device;  // several, if numbers of ranks use different devices: "a, b"
  std::int64_t global_batch = 0, first_weak_batch = 0;
  std::set<std::string> devices;
  std::vector<ScaleRow> rows;

  /// True if any row fits in memory.
  bool fits_anywhere() const;
};

/// `job` is resolved. Evaluates `first` ranks and every doubling up to `last`. Tensor and pipeline ranks stay
/// the job's; data ranks grow. The weak batch is the job's at its first number of ranks. Throws
/// Error(kInvalidInput) if no number of ranks has a layout.
ScaleReport scale_job(const JobConfig& job, const ClusterOfRanks& cluster_of, int first, int last,
                      const TellProgress& on_progress = {});

std::string to_text(const ScaleReport& report);
nlohmann::ordered_json to_json(const ScaleReport& report);
LinePlot plot_of(const ScaleReport& report);

}  // namespace trireme
