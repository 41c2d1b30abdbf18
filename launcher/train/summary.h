// summary.json: the final figures of a run, for scripts and tests.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "launcher/observe/rank_memory.h"
#include "parallel/layout/layout.h"

namespace trireme {

/// The layout of a run. It does not change the results, unless `reduction` is "fast".
struct RunLayout {
  std::string device = "cpu";
  std::string communicator = "local";
  int num_ranks = 1;
  int num_data_ranks = 1;
  Layout layout;                                   // with the exchange of the data axis that was used
  int num_threads = 1;                             // per rank
  std::int64_t num_accumulated_micro_batches = 1;  // per rank and step
  std::string reduction = "canonical";
  int num_hosts = 1;
};

struct RunSummary {
  std::string version;
  std::string precision = "fp32";
  std::string status = "done";              // "done", "stopped", or "failed": done without an update
  std::int64_t num_steps = 0;               // of the whole run
  std::int64_t first_step = 1;              // of this process: above 1 after a resume
  std::int64_t num_skipped = 0;             // in this process
  std::int64_t num_updates = 0;             // of the whole run
  std::optional<std::int64_t> fp8_clipped;  // sum of StepMetrics::fp8_clipped over this process
  std::int64_t num_parameters = 0;
  double loss = 0;                             // of the last step
  std::optional<double> eval_loss;             // of the last evaluation
  std::optional<double> eval_top1, eval_top5;  // of the last evaluation, for images
  std::optional<double> eval_ap, eval_ap50;    // of the last evaluation, for detectors
  bool eval_of_averages = false;               // that evaluation used the averages
  std::int64_t num_left_out = 0;               // samples that this process could not read
  double wall_s = 0;                           // of this process, from its first step
  double mean_step_ms = 0;  // over this process's steps, without the first, which fills caches
  std::string throughput_unit = "tokens";
  double throughput = 0;  // over the same steps, all ranks
  RankMemory memory;      // maximum over ranks and steps; each category has its own maximum
  // Hash of the fp32 parameters and the optimizer state in global order; independent of the layout.
  std::string state_hash;
  std::string checkpoint;  // the last one saved; may be empty
  RunLayout layout;
};

std::string to_json(const RunSummary& summary);

/// Atomic. Throws Error(kRuntime).
void write_summary(const std::filesystem::path& path, const RunSummary& summary);

}  // namespace trireme
