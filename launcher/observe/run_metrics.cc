#include "launcher/observe/run_metrics.h"

namespace trireme {
namespace {

using enum MetricType;
constexpr double kSecondsPerMs = 1e3;  // divided by, because 1 / 1000 is not an exact double

}  // namespace

RunMetrics::RunMetrics(RunFacts facts, double now_s) : facts_(std::move(facts)), start_s_(now_s) {}

void RunMetrics::step(const StepMetrics& metrics, double now_s) {
  state_.last = metrics;
  state_.last_step_s = now_s;
  state_.step_seconds.observe(metrics.step_ms / kSecondsPerMs);
  state_.num_skipped += metrics.skipped ? 1 : 0;
  state_.num_skipped_in_a_row = metrics.skipped ? state_.num_skipped_in_a_row + 1 : 0;
  state_.num_clipped += metrics.fp8_clipped.value_or(0);
  state_.sent_bytes += metrics.comm_bytes;
  state_.phases.add(metrics.phases);
  show(/*may_wait=*/false);
}

void RunMetrics::eval(std::int64_t step, const EvalMetrics& metrics, double seconds) {
  state_.eval.emplace(step, metrics);
  state_.eval_s += seconds;
  show(/*may_wait=*/true);
}

void RunMetrics::checkpoint(std::int64_t step, double seconds, double now_s) {
  ++state_.num_checkpoints;
  state_.checkpoint_step = step;
  state_.checkpoint_s = now_s;
  state_.last_save_s = seconds;
  state_.save_s += seconds;
  show(/*may_wait=*/true);
}

void RunMetrics::finish() {
  state_.running = false;
  show(/*may_wait=*/true);
}

void RunMetrics::show(bool may_wait) {
  std::unique_lock lock(mutex_, std::defer_lock);
  if (may_wait) {
    lock.lock();
  } else if (!lock.try_lock()) {
    return;
  }
  shown_ = state_;
}

std::string RunMetrics::shown_text(double now_s) const {
  State state;
  {
    const std::lock_guard lock(mutex_);
    state = shown_;
  }
  return text_of(state, now_s);
}

std::string RunMetrics::text_of(const State& state, double now_s) const {
  PrometheusText text({{"run", facts_.run}});
  text.family("trireme_run_info", kGauge, "Version, model and layout of the run; always 1.")
      .sample(std::int64_t{1}, facts_.info);
  text.gauge("trireme_running", "1 until the run has come to its own end: also where its process was killed.",
             std::int64_t{state.running});
  text.gauge("trireme_start_timestamp_seconds",
             "Unix time at which this process was ready for its first step.", start_s_);
  write_training(text, state);
  write_time(text, state);
  write_memory(text, state);
  write_traffic(text, state);
  write_checkpoints(text, state);
  write_goodput(text, state, now_s);
  return text.text();
}

void RunMetrics::write_training(PrometheusText& text, const State& state) const {
  const std::int64_t steps_here = state.step_seconds.count;
  text.gauge("trireme_target_steps", "Steps of the whole run, train.steps.", facts_.num_steps);
  text.gauge("trireme_step", "The step that ended last; the first is 1.",
             state.last ? state.last->step : facts_.resume_step);
  text.counter("trireme_steps_total", "Steps of this process.", steps_here);
  text.counter("trireme_skipped_steps_total", "Of them without an update: a gradient was not finite.",
               state.num_skipped);
  text.gauge("trireme_consecutive_skipped_steps", "Skipped steps in a row, up to the last step.",
             state.num_skipped_in_a_row);
  text.counter("trireme_samples_total", "Samples of these steps, over all ranks.",
               steps_here * facts_.samples_per_step);
  if (facts_.throughput_unit == "tokens")
    text.counter("trireme_tokens_total", "Tokens of these steps, over all ranks.",
                 steps_here * facts_.targets_per_step);
  if (state.last) {
    const StepMetrics& last = *state.last;
    text.gauge("trireme_loss", "Mean over the targets of the last step's global batch.", last.loss);
    text.gauge("trireme_learning_rate", "Of the last step.", last.lr);
    text.gauge("trireme_gradient_norm", "Global L2 norm before clipping, of the last step.", last.grad_norm);
    text.gauge("trireme_loss_scale", "Scale of the loss's gradient in the last step.", last.loss_scale);
    if (last.fp8_clipped)
      text.counter("trireme_fp8_clipped_operands_total",
                   "Operands of fp8 products whose largest numbers saturated.", state.num_clipped);
  }
  if (!state.eval) return;
  const auto& [step, eval] = *state.eval;
  text.gauge("trireme_eval_step", "The step after which was evaluated last.", step);
  text.gauge("trireme_eval_loss", "Of the last evaluation.", eval.loss);
  if (eval.detection) {
    text.gauge("trireme_eval_ap", "COCO's AP of the last evaluation.", eval.detection->ap);
    text.gauge("trireme_eval_ap50", "COCO's AP50 of the last evaluation.", eval.detection->ap50);
  }
  if (!eval.top1) return;
  text.family("trireme_eval_accuracy_ratio", kGauge, "Targets among the likeliest `top` classes.")
      .sample(*eval.top1, {{"top", "1"}});
  if (eval.top5) text.sample(*eval.top5, {{"top", "5"}});
}

void RunMetrics::write_time(PrometheusText& text, const State& state) const {
  text.family("trireme_step_seconds", MetricType::kHistogram, "Duration of the steps of this process.")
      .sample(state.step_seconds);
  text.family("trireme_phase_seconds_total", kCounter,
              "Seconds of rank 0 within steps, and between them (checkpoint, evaluation).");
  state.phases.visit([&](std::string_view phase, double seconds) {
    if (phase != name(Phase::kCheckpoint)) text.sample(seconds, {{"phase", std::string(phase)}});
  });
  // Includes a checkpoint saved after the last step.
  text.sample(state.save_s, {{"phase", std::string(name(Phase::kCheckpoint))}})
      .sample(state.eval_s, {{"phase", "evaluation"}});
  if (!state.last) return;
  const StepMetrics& last = *state.last;
  text.gauge("trireme_last_step_timestamp_seconds", "Unix time at the end of the last step.",
             state.last_step_s);
  text.gauge("trireme_last_step_seconds", "Duration of the last step.", last.step_ms / kSecondsPerMs);
  text.family("trireme_last_step_phase_seconds", kGauge,
              "Of it in a phase, on rank 0; checkpoint: of saving one since the step before.");
  last.phases.visit([&](std::string_view phase, double seconds) {
    text.sample(seconds, {{"phase", std::string(phase)}});
  });
  write_rates(text, last);
  write_ranks(text, last.rank_times);
}

void RunMetrics::write_rates(PrometheusText& text, const StepMetrics& last) const {
  text.gauge("trireme_" + facts_.throughput_unit + "_per_second", "Of the last step, over all ranks.",
             last.throughput);
  if (last.flops_per_s > 0)
    text.gauge("trireme_model_flops_per_second",
               "Floating-point operations that the mathematics of the last step needs, over its duration.",
               last.flops_per_s);
  if (facts_.peak_flops > 0 && last.mfu)
    text.gauge("trireme_peak_flops_per_second", "Of all ranks in a large product, measured at the start.",
               facts_.peak_flops);
  if (last.mfu)
    text.gauge("trireme_mfu_ratio", "Of the last step: the first of these two over the second.", *last.mfu);
}

void RunMetrics::write_ranks(PrometheusText& text, const RankTimes& times) const {
  if (!times.known()) return;
  text.gauge("trireme_slowest_rank", "The rank that was busy longest in the last step.",
             std::int64_t{times.slowest()});
  text.gauge("trireme_slowest_rank_excess_seconds", "Its time above the median of the others.",
             times.excess_ms() / kSecondsPerMs);
  if (!times.is_listed()) return;
  text.family("trireme_rank_busy_seconds", kGauge, "Of the last step, without waiting for other ranks.");
  for (std::size_t rank = 0; rank < times.busy_ms().size(); ++rank)
    text.sample(times.busy_ms()[rank] / kSecondsPerMs, {{"rank", std::to_string(rank)}});
}

void RunMetrics::write_memory(PrometheusText& text, const State& state) const {
  text.gauge("trireme_memory_predicted_peak_bytes", "Peak of rank 0 in a step, by the plan.",
             facts_.predicted_bytes);
  if (facts_.limit_bytes > 0)
    text.gauge("trireme_memory_limit_bytes", "What a rank may hold, without library workspaces.",
               facts_.limit_bytes);
  if (!state.last) return;
  const RankMemory& memory = state.last->memory;
  text.family("trireme_memory_peak_bytes", kGauge,
              "Peak in the last step of the rank that takes most, without library workspaces.")
      .sample(memory.peak_bytes, {{"rank", std::to_string(memory.rank)}});
  text.family("trireme_memory_category_peak_bytes", kGauge,
              "The same by category: each has its peak at a moment of its own.");
  for (int c = 0; c < kNumMemoryCategories; ++c) {
    const auto category = static_cast<MemoryCategory>(c);
    text.sample(memory.peak[category],
                {{"category", std::string(name(category))}, {"rank", std::to_string(memory.rank)}});
  }
}

void RunMetrics::write_traffic(PrometheusText& text, const State& state) const {
  text.counter("trireme_sent_bytes_total", "Sent by rank 0 in the steps of this process.", state.sent_bytes);
  text.family("trireme_axis_sent_bytes_total", kCounter,
              "The same by axis of the mesh: those of the plan, for each step.");
  for (const auto& [axis, bytes] : facts_.sent_by_axis)
    text.sample(bytes * state.step_seconds.count, {{"axis", axis}});
  text.family("trireme_planned_step_sent_bytes", kGauge, "Sent by rank 0 in a step, by the plan.");
  for (const auto& [axis, bytes] : facts_.sent_by_axis) text.sample(bytes, {{"axis", axis}});
}

void RunMetrics::write_checkpoints(PrometheusText& text, const State& state) const {
  text.counter("trireme_checkpoints_total", "Saved by this process.", state.num_checkpoints);
  if (state.num_checkpoints == 0) return;
  text.gauge("trireme_last_checkpoint_step", "The step of the newest of them.", state.checkpoint_step);
  text.gauge("trireme_last_checkpoint_timestamp_seconds", "Unix time at which it was whole.",
             state.checkpoint_s);
  text.gauge("trireme_last_checkpoint_save_seconds", "How long training stood still for it.",
             state.last_save_s);
}

void RunMetrics::write_goodput(PrometheusText& text, const State& state, double now_s) const {
  double useful_s = state.step_seconds.sum, began_s = start_s_;
  if (facts_.restarts) {
    text.counter("trireme_restarts_total", "Starts of this job by `trireme run`, but the first.",
                 facts_.restarts->count);
    useful_s += facts_.restarts->useful_seconds;
    began_s = facts_.restarts->began_s;
  }
  const double wall_s = now_s - began_s;
  text.gauge("trireme_useful_seconds",
             "Duration of the steps that count: of those made again after a restart, once.", useful_s);
  text.gauge("trireme_wall_seconds",
             "Since the first start by `trireme run`; without it, since this process was ready.", wall_s);
  if (wall_s > 0)
    text.gauge("trireme_goodput_ratio", "trireme_useful_seconds / trireme_wall_seconds.", useful_s / wall_s);
}

}  // namespace trireme
