#include "launcher/train/progress.h"

#include <fmt/core.h>

#include <cmath>
#include <optional>
#include <utility>

#include "launcher/host/standard_output.h"
#include "launcher/report/evaluation_report.h"

namespace trireme {
namespace {

// Faster than a person can read; too slow to cost anything.
constexpr std::chrono::milliseconds kRefresh{100};

void print_now(std::string_view line) {
  print_line(line);
  flush_output();
}

}  // namespace

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  const auto total = static_cast<std::int64_t>(std::llround(seconds));
  const std::int64_t h = total / 3600, m = total / 60 % 60, s = total % 60;
  if (h > 0) return fmt::format("{}h {:02}m {:02}s", h, m, s);
  if (m > 0) return fmt::format("{}m {:02}s", m, s);
  return fmt::format("{}s", s);
}

std::string format_rate(double per_second) {
  if (per_second >= 1e6) return fmt::format("{:.2f}M", per_second / 1e6);
  if (per_second >= 1e4) return fmt::format("{:.1f}k", per_second / 1e3);
  return fmt::format("{:.0f}", per_second);
}

std::string describe_phases(const StepMetrics& metrics) {
  constexpr std::pair<Phase, const char*> kShown[] = {{Phase::kDataWait, "data"},
                                                      {Phase::kForward, "fwd"},
                                                      {Phase::kBackward, "bwd"},
                                                      {Phase::kExchange, "comm"},
                                                      {Phase::kOptimizer, "opt"}};
  std::string text;
  for (const auto& [phase, shown] : kShown) {
    const std::optional<double> seconds = metrics.phases[phase];
    if (!seconds || metrics.step_ms <= 0) continue;
    text += fmt::format("{}{} {:.0f} %", text.empty() ? "" : " ", shown, 1e5 * *seconds / metrics.step_ms);
  }
  const RankTimes& ranks = metrics.rank_times;
  if (ranks.known()) {
    text += fmt::format("{}rank {} +{:.2f} ms", text.empty() ? "" : ", ", ranks.slowest(), ranks.excess_ms());
  }
  return text;
}

Progress::Progress(Options options, TimePoint start)
    : options_(std::move(options)), start_(start), last_refresh_(start - kRefresh) {}

std::string Progress::describe(const StepMetrics& metrics, TimePoint now) const {
  const double elapsed_s = std::chrono::duration<double>(now - start_).count();
  const auto num_done = static_cast<double>(metrics.step - options_.first_step + 1);
  const double left_s = elapsed_s / num_done * static_cast<double>(options_.num_steps - metrics.step);
  std::string text = fmt::format(
      "step {}/{}  loss {:.4f}  lr {:.3g}  {} {}/s  ETA {}", metrics.step, options_.num_steps, metrics.loss,
      metrics.lr, format_rate(metrics.throughput), options_.throughput_unit, format_duration(left_s));
  const std::string phases = options_.phases ? describe_phases(metrics) : "";
  if (!phases.empty()) text += "  " + phases;
  if (metrics.skipped) {
    text +=
        std::isfinite(metrics.grad_norm) ? "  (left out: a spike)" : "  (skipped: a gradient is not finite)";
  }
  return text;
}

void Progress::step(const StepMetrics& metrics, TimePoint now) {
  if (options_.is_quiet) return;
  const bool last = metrics.step == options_.num_steps;
  if (!options_.terminal) {
    if (metrics.step % options_.log_every == 0 || metrics.step == options_.first_step || last) {
      print_now(describe(metrics, now));
    }
    return;
  }
  if (now - last_refresh_ < kRefresh && !last) return;
  last_refresh_ = now;
  const std::string text = describe(metrics, now);
  const std::size_t blanks = shown_width_ > text.size() ? shown_width_ - text.size() : 0;
  refresh_line(text + std::string(blanks, ' '));
  shown_width_ = text.size();
}

void Progress::eval(std::int64_t step, const EvalMetrics& metrics) {
  line(fmt::format("step {}/{}  eval {}", step, options_.num_steps, describe_eval(metrics)));
}

void Progress::line(std::string_view text) {
  if (options_.is_quiet) return;
  finish();
  print_now(text);
}

void Progress::finish() {
  if (shown_width_ > 0) print_now("");
  shown_width_ = 0;
}

}  // namespace trireme
