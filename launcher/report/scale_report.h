// How a job scales over ranks of a described cluster: `trireme plan --scale`.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/report/foreseen_step.h"
#include "launcher/report/line_plot.h"
#include "launcher/report/progress_lines.h"

namespace trireme {

struct ScaleRow {
  int num_ranks = 1;
  /// The job's global batch on all numbers of ranks; and a batch that grows with them. None: refused.
  std::optional<ForeseenStep> strong, weak;
  std::string strong_refusal, weak_refusal;           // why
  double strong_efficiency = 0, weak_efficiency = 0;  // samples/s of a rank over those of the first row
};

struct ScaleReport {
  std::string cluster, device;  // devices, where numbers of ranks have others: "a, b"
  std::int64_t global_batch = 0, first_weak_batch = 0;
  std::set<std::string> devices;
  std::vector<ScaleRow> rows;

  /// Whether any of them fits into memory.
  bool fits_anywhere() const;
};

/// Of a resolved job, at `first` ranks and every doubling up to `last`. Tensor and pipeline ranks stay as the
/// job has them; data ranks grow. The weak batch is the job's at its first number of ranks. Throws
/// Error(kInvalidInput) where no number of ranks has a layout.
ScaleReport scale_job(const JobConfig& job, const ClusterOfRanks& cluster_of, int first, int last,
                      const TellProgress& on_progress = {});

std::string to_text(const ScaleReport& report);
std::string to_json(const ScaleReport& report);
LinePlot plot_of(const ScaleReport& report);

}  // namespace trireme
