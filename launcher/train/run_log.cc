#include "launcher/train/run_log.h"

#include <algorithm>

#include "runtime/checkpoint/json_file.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

RunLog::RunLog(Options options)
    : options_(std::move(options)),
      metrics_({.path = options_.out.metrics(),
                .resume_step = options_.resume_step,
                .evaluates_again = options_.evaluates_again,
                .throughput_unit = options_.summary.throughput_unit,
                .observe = options_.observe}),
      progress_({.first_step = options_.resume_step + 1,
                 .num_steps = options_.num_steps,
                 .log_every = options_.log_every,
                 .terminal = options_.terminal,
                 .throughput_unit = options_.summary.throughput_unit,
                 .phases = options_.phases,
                 .is_quiet = options_.is_quiet},
                Clock::now()),
      start_(Clock::now()) {
  options_.summary.first_step = options_.resume_step + 1;
  options_.summary.num_steps = options_.resume_step;
}

void RunLog::step(const StepMetrics& metrics) {
  metrics_.write_step(metrics);
  if (options_.monitor) options_.monitor->step(metrics);
  progress_.step(metrics, Clock::now());
  RunSummary& summary = options_.summary;
  summary.num_steps = metrics.step;
  summary.loss = metrics.loss;
  if (metrics.skipped) ++summary.num_skipped;
  if (metrics.fp8_clipped) summary.fp8_clipped = summary.fp8_clipped.value_or(0) + *metrics.fp8_clipped;
  RankMemory& memory = summary.memory;
  if (metrics.memory.peak_bytes > memory.peak_bytes) {
    memory.peak_bytes = metrics.memory.peak_bytes;
    memory.rank = metrics.memory.rank;
  }
  for (std::size_t c = 0; c < memory.peak.bytes.size(); ++c) {
    memory.peak.bytes[c] = std::max(memory.peak.bytes[c], metrics.memory.peak.bytes[c]);
  }
  if (++num_steps_here_ == 2) num_timed_ = 0, timed_ms_ = 0, timed_targets_ = 0;
  ++num_timed_;
  timed_ms_ += metrics.step_ms;
  timed_targets_ += metrics.throughput * metrics.step_ms / 1e3;
}

void RunLog::eval(std::int64_t step, const EvalMetrics& metrics, double seconds) {
  metrics_.write_eval(step, metrics);
  if (options_.monitor) options_.monitor->eval(step, metrics, seconds);
  progress_.eval(step, metrics);
  options_.summary.eval_loss = metrics.loss;
  options_.summary.eval_top1 = metrics.top1;
  options_.summary.eval_top5 = metrics.top5;
  if (metrics.detection) {
    options_.summary.eval_ap = metrics.detection->ap;
    options_.summary.eval_ap50 = metrics.detection->ap50;
  }
  options_.summary.eval_of_averages = metrics.of_averages;
}

void RunLog::checkpoint(const std::filesystem::path& folder, std::int64_t step, double seconds) {
  if (options_.monitor) options_.monitor->checkpoint(step, seconds);
  options_.summary.checkpoint = folder.string();
}

void RunLog::finish(const std::string& status, const std::string& state_hash, std::int64_t updates) {
  progress_.finish();
  if (options_.monitor) options_.monitor->finish();
  RunSummary& summary = options_.summary;
  summary.status = status;
  summary.state_hash = state_hash;
  summary.num_updates = updates;
  summary.wall_s = std::chrono::duration<double>(Clock::now() - start_).count();
  if (num_timed_ > 0 && timed_ms_ > 0) {
    summary.mean_step_ms = timed_ms_ / static_cast<double>(num_timed_);
    summary.throughput = timed_targets_ / timed_ms_ * 1e3;
  }
  if (num_steps_here_ == 0 && summary_is_current()) return;
  write_summary(options_.out.summary(), summary);
}

bool RunLog::summary_is_current() const {
  try {
    const nlohmann::json json = read_json_file(options_.out.summary(), "summary");
    return json.value("status", "") == options_.summary.status &&
           read_integer<std::int64_t>(json, "steps") == options_.summary.num_steps &&
           json.value("state_hash", "") == options_.summary.state_hash;
  } catch (const std::exception&) {  // missing or damaged: write it again
    return false;
  }
}

}  // namespace trireme
