// The output of a run for people and scripts: progress line, metrics.jsonl, summary.json, and the monitoring
// of observe/. Rank 0 only.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "launcher/observe/metrics.h"
#include "launcher/observe/run_monitor.h"
#include "launcher/records/output_folder.h"
#include "launcher/train/progress.h"
#include "launcher/train/summary.h"

namespace trireme {

class RunLog {
 public:
  struct Options {
    OutputFolder out;
    std::int64_t resume_step = 0;  // 0: a fresh start
    bool evaluates_again = false;  // evaluate the step that the run resumes from
    std::int64_t num_steps = 0;
    std::int64_t log_every = 10;
    bool terminal = false;
    bool phases = false;                            // in the progress line
    RunSummary summary;                             // as known at the start; the rest is filled in later
    std::unique_ptr<RunMonitor> monitor = nullptr;  // null: no monitoring
    std::function<void(const std::string& line)> observe = {};  // receives the lines of metrics.jsonl
  };
  explicit RunLog(Options options);

  void step(const StepMetrics& metrics);
  // `seconds`: duration of the evaluation.
  void eval(std::int64_t step, const EvalMetrics& metrics, double seconds);
  /// Sets the number of samples left out so far, each counted once.
  void left_out(std::int64_t count) { options_.summary.num_left_out = count; }
  void checkpoint(const std::filesystem::path& folder, std::int64_t step, double seconds);
  /// Prints a line for people.
  void line(std::string_view text) { progress_.line(text); }

  /// Writes summary.json, unless an earlier process completed the run and wrote it. `updates`: number of
  /// updates of the whole run.
  void finish(const std::string& status, const std::string& state_hash, std::int64_t updates);

  double loss() const { return options_.summary.loss; }
  std::optional<double> eval_loss() const { return options_.summary.eval_loss; }

 private:
  bool summary_is_current() const;

  Options options_;
  MetricsWriter metrics_;
  Progress progress_;
  std::chrono::steady_clock::time_point start_;
  // For the steps of this process, without the first one (which fills caches) if there are more.
  std::int64_t num_timed_ = 0;
  double timed_ms_ = 0, timed_targets_ = 0;
  std::int64_t num_steps_here_ = 0;
};

}  // namespace trireme
