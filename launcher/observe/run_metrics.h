// The Prometheus metrics of a run. Their names are a contract: examples/monitoring has rules and a dashboard
// for them, and a test compares those with the metrics of a run.
//
// [Note: one source of numbers] A step's values come from the same StepMetrics as metrics.jsonl. A gauge is
// such a value in base units (seconds, bytes). A counter is a sum since this process began, so it decreases
// only at a restart, which trireme_restarts_total and the goodput show.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/observe/histogram.h"
#include "launcher/observe/metrics.h"
#include "launcher/observe/prometheus_text.h"

namespace trireme {

/// The restarts that `trireme run` made before this process.
struct Restarts {
  std::int64_t count = 0;
  double began_s = 0;         // Unix time of the first start
  double useful_seconds = 0;  // of the steps since then that this process does not repeat
};

/// Facts known before the first step.
struct RunFacts {
  // Label of every sample: the output folder, because one Prometheus may scrape several runs.
  std::string run;
  MetricLabels info;  // version, model, layout
  std::string throughput_unit = "tokens";
  std::int64_t resume_step = 0;
  std::int64_t num_steps = 0;                        // of the whole run
  std::int64_t samples_per_step = 0;                 // over all ranks
  std::int64_t targets_per_step = 0;                 // over all ranks
  double peak_flops = 0;                             // peak FLOP/s of all ranks; 0: not measured
  std::int64_t predicted_bytes = 0;                  // peak of rank 0
  std::int64_t limit_bytes = 0;                      // per rank; 0: unknown
  std::map<std::string, std::int64_t> sent_by_axis;  // by rank 0 in a step, from the plan
  std::optional<Restarts> restarts;                  // null: not under `trireme run`
};

/// Used by the training thread, except shown_text(). The training thread never waits for a reader during a
/// step: a concurrent reader sees a step one step later. Times are Unix times in seconds.
class RunMetrics {
 public:
  RunMetrics(RunFacts facts, double now_s);

  void step(const StepMetrics& metrics, double now_s);
  void eval(std::int64_t step, const EvalMetrics& metrics, double seconds);
  /// Records a saved checkpoint.
  void checkpoint(std::int64_t step, double seconds, double now_s);
  void finish();

  /// All families, in Prometheus's text format.
  std::string text(double now_s) const { return text_of(state_, now_s); }
  /// The same, for all other threads.
  std::string shown_text(double now_s) const;

 private:
  struct State {
    bool running = true;
    std::optional<StepMetrics> last;
    double last_step_s = 0;
    Histogram step_seconds;
    std::int64_t num_skipped = 0, num_skipped_in_a_row = 0, num_clipped = 0, sent_bytes = 0;
    PhaseSeconds phases;  // sums
    double eval_s = 0, save_s = 0;
    std::optional<std::pair<std::int64_t, EvalMetrics>> eval;
    std::int64_t num_checkpoints = 0, checkpoint_step = 0;
    double checkpoint_s = 0, last_save_s = 0;
  };
  void show(bool may_wait);
  std::string text_of(const State& state, double now_s) const;
  void write_training(PrometheusText& text, const State& state) const;
  void write_time(PrometheusText& text, const State& state) const;
  void write_rates(PrometheusText& text, const StepMetrics& last) const;
  void write_ranks(PrometheusText& text, const RankTimes& times) const;
  void write_memory(PrometheusText& text, const State& state) const;
  void write_traffic(PrometheusText& text, const State& state) const;
  void write_checkpoints(PrometheusText& text, const State& state) const;
  void write_goodput(PrometheusText& text, const State& state, double now_s) const;

  const RunFacts facts_;
  const double start_s_;
  State state_;
  mutable std::mutex mutex_;
  State shown_;  // a copy, under the mutex
};

}  // namespace trireme
