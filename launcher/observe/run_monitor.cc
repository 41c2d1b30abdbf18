#include "launcher/observe/run_monitor.h"

#include <fmt/core.h>

#include <chrono>

#include "launcher/observe/metrics_file.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

// Collectors and scrapers read every few seconds. Writing the file at every step would slow steps of
// milliseconds.
constexpr double kSecondsBetweenWrites = 1;

double unix_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

RunMonitor::RunMonitor(Options options) : options_(std::move(options)), metrics_(options_.facts, unix_now()) {
  if (!options_.metrics_file.empty() || !options_.listen.empty()) gpus_.emplace(options_.pci_bus_ids);
  if (!options_.metrics_file.empty())
    write_metrics_file(options_.metrics_file, with_gpus(metrics_.text(unix_now())));
  if (!options_.tensorboard.empty()) {
    tensorboard_.emplace(options_.tensorboard, unix_now(), options_.facts.resume_step + 1);
    tensorboard_->write_hyperparameters(options_.hyperparameters, unix_now());
  }
  if (!options_.listen.empty())
    server_ = std::make_unique<MetricsServer>(options_.listen,
                                              [this] { return with_gpus(metrics_.shown_text(unix_now())); });
}

std::string RunMonitor::with_gpus(std::string text) const {
  PrometheusText gpus({{"run", options_.facts.run}});
  gpus_->write(gpus);
  return text + gpus.text();
}

RunMonitor::~RunMonitor() {
  if (finished_) return;
  try {
    if (tensorboard_) tensorboard_->write_end(SessionEnd::kFailure, unix_now());
    write_file(unix_now());
  } catch (const std::exception&) {  // out of memory: no message is possible
  }
}

void RunMonitor::step(const StepMetrics& metrics) {
  const double now_s = unix_now();
  metrics_.step(metrics, now_s);
  if (tensorboard_) tensorboard_->write_step(metrics, options_.facts.throughput_unit, now_s);
  // If the clock was set back, write now.
  const double since_s = now_s - last_write_s_;
  if (since_s >= kSecondsBetweenWrites || since_s < 0) write_file(now_s);
}

void RunMonitor::eval(std::int64_t step, const EvalMetrics& metrics, double seconds) {
  const double now_s = unix_now();
  metrics_.eval(step, metrics, seconds);
  if (tensorboard_) tensorboard_->write_eval(step, metrics, now_s);
  write_file(now_s);
}

void RunMonitor::checkpoint(std::int64_t step, double seconds) {
  const double now_s = unix_now();
  metrics_.checkpoint(step, seconds, now_s);
  write_file(now_s);
}

void RunMonitor::finish() {
  metrics_.finish();
  finished_ = true;
  if (tensorboard_) tensorboard_->write_end(SessionEnd::kSuccess, unix_now());
  write_file(unix_now());
}

void RunMonitor::write_file(double now_s) {
  last_write_s_ = now_s;
  if (options_.metrics_file.empty()) return;
  try {
    write_metrics_file(options_.metrics_file, with_gpus(metrics_.text(now_s)));
    warned_ = false;
  } catch (const Error& error) {
    if (!warned_) log_warning(fmt::format("log.prometheus: {}; training continues", error.what()));
    warned_ = true;
  }
}

}  // namespace trireme
