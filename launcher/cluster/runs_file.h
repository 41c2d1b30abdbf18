// Tables of training steps as CSV files: a run a row.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "parallel/cluster/cluster.h"
#include "parallel/cluster/training_run.h"

namespace trireme {

/// What a row that is no run is: an error, or left out with a note.
enum class BadRows { kRefuse, kSkip };
/// Whether a row without a measured step is no run.
enum class MeasuredSteps { kMayLack, kNeeded };

struct RunsFile {
  std::string header;              // as in the file
  std::vector<std::string> lines;  // of `runs`, as in the file
  std::vector<TrainingRun> runs;
  std::vector<std::string> skipped;  // why, of each row that is left out
};

/// Columns are found by their names; unknown ones are kept in `lines` and have no effect. Required: gpu,
/// precision, gpus, global_batch, micro_batch, seq_len, layers, hidden, heads, vocab, tensor, data, pipeline.
/// May be absent or empty: zero, recompute (0 or 1), chunks, step_ms.
///
/// Throws Error(kInvalidInput) for a missing column, a file without a run, and in a row with file, line,
/// column and value: for what is no number or below 1, gpus that are not tensor * data * pipeline, a device
/// or precision that `cluster` lacks, a measured step that is needed and absent.
RunsFile read_runs(const std::filesystem::path& file, const Cluster& cluster, BadRows bad_rows,
                   MeasuredSteps steps = MeasuredSteps::kMayLack);

/// The file again, with predicted_ms, one for each run, as its last column; one that it had is left out.
std::string to_csv(const RunsFile& file, const std::vector<double>& predicted_ms);

}  // namespace trireme
