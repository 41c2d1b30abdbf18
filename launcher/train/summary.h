// summary.json: the final figures of a run, one file that scripts and tests read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "launcher/report/rank_memory.h"
#include "parallel/layout/layout.h"

namespace trireme {

/// The layout that a run was computed with. It does not change the results, unless `reduction` is "fast".
struct RunLayout {
  std::string device = "cpu";
  std::string communicator = "local";
  int num_ranks = 1;
  int num_data_ranks = 1;
  Layout layout;                                   // with the exchange of the data axis that was done
  int num_threads = 1;                             // a rank
  std::int64_t num_accumulated_micro_batches = 1;  // a rank and step
  std::string reduction = "canonical";
  int num_hosts = 1;
};

struct RunSummary {
  std::string version;
  std::string precision = "fp32";
  std::string status = "done";              // "done", "stopped", or "failed": done without an update
  std::int64_t num_steps = 0;               // of the whole run
  std::int64_t first_step = 1;              // of this process: above 1 after a resume
  std::int64_t num_skipped = 0;             // of the steps of this process
  std::int64_t num_updates = 0;             // of the whole run
  std::optional<std::int64_t> fp8_clipped;  // StepMetrics's, of all steps of this process
  std::int64_t num_parameters = 0;
  double loss = 0;                             // of the last step
  std::optional<double> eval_loss;             // of the last evaluation
  std::optional<double> eval_top1, eval_top5;  // likewise, of images
  bool eval_of_averages = false;               // of that evaluation
  std::int64_t num_left_out = 0;               // samples of this process that could not be read
  double wall_s = 0;                           // of this process, from its first step on
  double mean_step_ms = 0;  // over the steps of this process but the first, which fills caches
  std::string throughput_unit = "tokens";
  double throughput = 0;  // over the same steps, all ranks
  RankMemory memory;      // largest over ranks and steps, and of the steps each category's own peak
  std::string
      state_hash;  // of fp32 parameters and optimizer state in global order, independent of the layout
  std::string checkpoint;  // the last one saved; may be empty
  RunLayout layout;
};

std::string to_json(const RunSummary& summary);

/// Atomic: a reader sees the old file or the new one. Throws Error(kRuntime).
void write_summary(const std::filesystem::path& path, const RunSummary& summary);

}  // namespace trireme
