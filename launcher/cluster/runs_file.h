// Tables of training steps as CSV files, one run per row.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "launcher/cluster/run_price.h"
#include "parallel/cluster/calibrate.h"
#include "parallel/cluster/cluster.h"
#include "parallel/cluster/training_run.h"

namespace trireme {

/// Handling of invalid rows: an error, or a skip with a note.
enum class BadRows { kRefuse, kSkip };
/// kNeeded: a row without a measured step is invalid.
enum class MeasuredSteps { kMayLack, kNeeded };

struct RunsFile {
  std::string header;              // as in the file
  std::vector<std::string> lines;  // rows of `runs`, as in the file
  std::vector<TrainingRun> runs;
  std::vector<RunPrice> prices;      // of `runs`
  std::vector<std::string> skipped;  // for each skipped row, the reason

  /// The runs as calibrate() takes them; each must have a measured step. They refer to this file.
  std::vector<MeasuredStep> measured() const;
};

/// Columns are found by name; unknown columns are kept in `lines` and have no effect. Required: gpu,
/// precision, gpus, global_batch, micro_batch, seq_len, layers, hidden, heads, vocab, tensor, data, pipeline.
/// Optional: zero, recompute (0 or 1), chunks, step_ms.
///
/// Throws Error(kInvalidInput) for a missing column and for a file without a run. For a row, names file,
/// line, column and value: not a number or below 1, gpus other than tensor * data * pipeline, a device or
/// precision that `cluster` lacks, a run that cannot be a job, a missing step_ms with MeasuredSteps::kNeeded.
RunsFile read_runs(const std::filesystem::path& file, const Cluster& cluster, BadRows bad_rows,
                   MeasuredSteps steps = MeasuredSteps::kMayLack);

/// The file with predicted_ms as its last column, one value per run; replaces an existing predicted_ms.
std::string to_csv(const RunsFile& file, const std::vector<double>& predicted_ms);

}  // namespace trireme
