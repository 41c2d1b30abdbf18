// The metrics of a run as Prometheus has them. Their names are a contract: examples/monitoring has rules and
// a dashboard over them, and a test compares these with what a run writes.
//
// [Note: one source of numbers] The figures of a step come as the StepMetrics that metrics.jsonl is written
// from. A gauge is such a figure in base units (seconds, bytes), a counter a sum of them since this process
// began: so counters fall at a restart alone, where trireme_restarts_total and the goodput tell of it.
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
#include "launcher/observe/prometheus_text.h"
#include "launcher/train/metrics.h"

namespace trireme {

/// The restarts that `trireme run` made before this process.
struct Restarts {
  std::int64_t count = 0;
  double began_s = 0;         // Unix time, of the first start
  double useful_seconds = 0;  // of the steps since then that this process does not make again
};

/// What is known before the first step.
struct RunFacts {
  std::string run;    // on every sample: the output folder, as several runs may be scraped together
  MetricLabels info;  // version, model, layout
  std::string throughput_unit = "tokens";
  std::int64_t resume_step = 0;
  std::int64_t num_steps = 0;                        // of the whole run
  std::int64_t samples_per_step = 0;                 // over all ranks
  std::int64_t targets_per_step = 0;                 // likewise
  double peak_flops = 0;                             // FLOP/s of all ranks at their best; 0: not measured
  std::int64_t predicted_bytes = 0;                  // the peak of rank 0
  std::int64_t limit_bytes = 0;                      // of a rank; 0: none is known
  std::map<std::string, std::int64_t> sent_by_axis;  // of rank 0 in a step, by the plan
  std::optional<Restarts> restarts;                  // nothing: not under `trireme run`
};

/// Of the thread that trains, but for shown_text(). That thread never waits for a reader during a step: one
/// that is just looking sees this step with the next one. Times are Unix times in seconds.
class RunMetrics {
 public:
  RunMetrics(RunFacts facts, double now_s);

  void step(const StepMetrics& metrics, double now_s);
  void eval(std::int64_t step, const EvalMetrics& metrics, double seconds);
  /// Of a checkpoint that was saved.
  void checkpoint(std::int64_t step, double seconds, double now_s);
  void finish();

  /// All families, in Prometheus's text format.
  std::string text(double now_s) const { return text_of(state_, now_s); }
  /// The same for any other thread.
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
