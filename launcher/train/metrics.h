// metrics.jsonl: one JSON object a line, a line a step, and a line an evaluation. Written by rank 0.
//
//   {"step":1,"loss":10.9,"lr":1e-05,"grad_norm":2.1,"loss_scale":1.0,"skipped":false,"step_ms":71.2,
//    "tokens_per_s":8600.1,"data_wait_ms":0.01,"comm_wait_ms":0.2,"comm_bytes":1024,
//    "peak_bytes":123456,"peak_rank":0,"memory":{"parameters":...},
//    "phase_s":{"data_wait":1e-05,"forward":0.02,"backward":0.04,"exchange":0.001,"optimizer":0.005,
//    "checkpoint":0.0},"flops_per_s":2.1e12,"mfu":0.61,
//    "slowest_rank":1,"slowest_excess_ms":0.7,"rank_step_ms":[70.1,70.8]}
//   {"step":100,"eval_loss":4.2}                                           of images also "eval_top1",
//   "eval_top5" (from six classes on), and with train.ema "eval_weights":"ema"
//
// phase_s is of rank 0 (phase_seconds.h); its checkpoint is the one that was saved since the line before.
// rank_step_ms are the times that ranks were busy, without waiting for others; the three keys at the end are
// those of jobs of several ranks. On GPUs, which run behind the host, only data_wait and checkpoint are
// known, and no times of ranks.
//
// In mode fp8 also "fp8_clipped": of how many operands the largest numbers saturated.
// Numbers that are not finite are written as null: JSON has no other.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "launcher/report/rank_memory.h"
#include "launcher/train/phase_seconds.h"
#include "launcher/train/rank_times.h"
#include "runtime/base/appended_file.h"

namespace trireme {

struct StepMetrics {
  std::int64_t step = 0;  // 1 is the first
  double loss = 0;        // mean over the targets of the global batch
  double lr = 0;
  double grad_norm = 0;  // before clipping
  double loss_scale = 1;
  bool skipped = false;            // no update: a gradient was not finite, or train.on_spike left it out
  std::optional<int> fp8_clipped;  // operands of fp8 products that exceeded their scale; none: not in fp8
  double step_ms = 0;
  double throughput = 0;    // targets or samples a second, over all ranks
  double data_wait_ms = 0;  // of step_ms, spent waiting for the micro-batches
  double comm_wait_ms = 0;  // of step_ms, spent in communication that nothing overlapped; 0 on GPUs
  PhaseSeconds phases;
  RankTimes rank_times;         // all ranks
  double flops_per_s = 0;       // of the mathematics, over all ranks: [Note: MFU]
  std::optional<double> mfu;    // none: the peak is not known; null in the line then
  std::int64_t comm_bytes = 0;  // sent by this rank in the step
  RankMemory memory;            // of the rank that takes most
  std::string state_hash;       // empty: not taken at this step
};

struct EvalMetrics {
  double loss = 0;
  bool of_averages = false;      // in place of the parameters: train.ema
  std::int64_t num_samples = 0;  // that counted
  std::optional<double> top1;    // part of the targets that are the likeliest
  std::optional<double> top5;    // or among the five likeliest; none below six classes
};

/// The sum of step_ms, in seconds, of the lines of the steps from `first` to `last`. What is damaged or
/// missing counts nothing.
double recorded_step_seconds(const std::filesystem::path& path, std::int64_t first, std::int64_t last);

class MetricsWriter {
 public:
  struct Options {
    std::filesystem::path path;
    /// Lines of later steps are cut off, so that no step appears twice after a resume; 0 starts a new file.
    std::int64_t resume_step = 0;
    /// So is the evaluation of that step itself, which the run before may have written.
    bool evaluates_again = false;
    std::string throughput_unit = "tokens";
  };
  /// Throws as AppendedFile does when the file is a link or cannot be written.
  explicit MetricsWriter(Options options);

  // Each writes one line and hands it to the system. Throws Error(kRuntime) when that fails: a full disk.
  void write_step(const StepMetrics& metrics);
  void write_eval(std::int64_t step, const EvalMetrics& metrics);

 private:
  void write_line(const std::string& line);

  Options options_;
  AppendedFile file_;
};

}  // namespace trireme
