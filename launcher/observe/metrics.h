// metrics.jsonl: one JSON object per line, one line per step and per evaluation. Written by rank 0.
//
//   {"step":1,"loss":10.9,"lr":1e-05,"grad_norm":2.1,"loss_scale":1.0,"skipped":false,"step_ms":71.2,
//    "tokens_per_s":8600.1,"data_wait_ms":0.01,"comm_wait_ms":0.2,"comm_bytes":1024,
//    "peak_bytes":123456,"peak_rank":0,"memory":{"parameters":...},
//    "phase_s":{"data_wait":1e-05,"forward":0.02,"backward":0.04,"exchange":0.001,"optimizer":0.005,
//    "checkpoint":0.0},"flops_per_s":2.1e12,"mfu":0.61,
//    "slowest_rank":1,"slowest_excess_ms":0.7,"rank_step_ms":[70.1,70.8]}
//   {"step":100,"eval_loss":4.2}                             for images also "eval_top1", "eval_top5" (with
//   at least six classes), for diffusion "eval_noise_bands":[0.5,...], for detectors "eval_ap",
//   "eval_ap50" (-1 without objects), and with train.ema "eval_weights":"ema"
//
// phase_s is rank 0's (phase_seconds.h); its checkpoint is the save since the previous line. rank_step_ms are
// the busy times of the ranks, without waiting for others. The last three keys exist only with several ranks.
// On GPUs, which run asynchronously, only data_wait and checkpoint are known, and no rank times.
//
// In mode fp8 also "fp8_clipped": the number of operands whose largest values saturated. Non-finite numbers
// are written as null, because JSON has no other form.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/observe/phase_seconds.h"
#include "launcher/observe/rank_memory.h"
#include "launcher/observe/rank_times.h"
#include "runtime/base/appended_file.h"
#include "runtime/data/detection/average_precision.h"

namespace trireme {

struct StepMetrics {
  std::int64_t step = 0;  // 1 is the first
  double loss = 0;        // mean over the targets of the global batch
  double lr = 0;
  double grad_norm = 0;  // before clipping
  double loss_scale = 1;
  bool skipped = false;            // no update: non-finite gradient, or left out by train.on_spike
  std::optional<int> fp8_clipped;  // operands of fp8 products that exceeded their scale; null: not fp8
  double step_ms = 0;
  double throughput = 0;    // targets or samples a second, over all ranks
  double data_wait_ms = 0;  // part of step_ms, waiting for micro-batches
  double comm_wait_ms = 0;  // part of step_ms, in communication without overlap; 0 on GPUs
  PhaseSeconds phases;
  RankTimes rank_times;         // all ranks
  double flops_per_s = 0;       // of the mathematics, all ranks: [Note: MFU]
  std::optional<double> mfu;    // null: unknown peak; also null in the line
  std::int64_t comm_bytes = 0;  // sent by this rank in the step
  RankMemory memory;            // of the rank with the largest peak
  std::string state_hash;       // empty: not computed at this step
};

struct EvalMetrics {
  double loss = 0;
  bool of_averages = false;             // loss of the averages (train.ema) instead of the parameters
  std::int64_t num_samples = 0;         // samples evaluated
  std::optional<double> top1;           // share of targets ranked first
  std::optional<double> top5;           // share of targets ranked in the first five; null below six classes
  std::optional<double> exact_answers;  // share of answers whose targets are all ranked first; chat data only
  std::vector<double> noise_bands;      // mean loss of each tenth of the timesteps; empty: no diffusion
  std::optional<DetectionScores> detection;  // null: no detector
};

/// The sum of step_ms, in seconds, over the lines of steps `first` to `last`. Damaged and missing lines count
/// as 0.
double recorded_step_seconds(const std::filesystem::path& path, std::int64_t first, std::int64_t last);

class MetricsWriter {
 public:
  struct Options {
    std::filesystem::path path;
    /// Lines from the first later step on are cut off, so that no step appears twice after a resume; 0: start
    /// a new file. Damaged lines before it stay, with a warning.
    std::int64_t resume_step = 0;
    /// Also cut off the evaluation of that step, which the run before may have written.
    bool evaluates_again = false;
    std::string throughput_unit = "tokens";
    std::function<void(const std::string& line)> observe = {};  // receives each line that was written
  };
  /// Throws as AppendedFile does if the file is a link or cannot be written.
  explicit MetricsWriter(Options options);

  // Each writes one line without buffering. Throws Error(kRuntime) on failure, such as a full disk.
  void write_step(const StepMetrics& metrics);
  void write_eval(std::int64_t step, const EvalMetrics& metrics);

 private:
  void write_line(const std::string& line);

  Options options_;
  AppendedFile file_;
};

}  // namespace trireme
