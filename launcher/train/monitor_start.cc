#include "launcher/train/monitor_start.h"

#include <fmt/core.h>

#include "launcher/keys/config_keys.h"
#include "launcher/keys/job_file.h"
#include "launcher/observe/metrics_file.h"
#include "launcher/records/history.h"
#include "launcher/report/plan_details.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

MetricLabels info_of(const JobConfig& config, const RunSummary& summary) {
  const RunLayout& layout = summary.layout;
  MetricLabels labels = {{"version", summary.version},
                         {"model", config.model.name},
                         {"parameters", std::to_string(summary.num_parameters)},
                         {"precision", summary.precision},
                         {"device", layout.device},
                         {"communicator", layout.communicator},
                         {"ranks", std::to_string(layout.num_ranks)},
                         {"data_ranks", std::to_string(layout.num_data_ranks)},
                         {"hosts", std::to_string(layout.num_hosts)}};
  for (const LayoutField& field : layout_fields())
    labels.emplace_back(std::string(field.name), to_text(field.get(layout.layout)));
  return labels;
}

/// Null if this process is not an attempt of the folder's supervisor.
std::optional<Restarts> restarts_before(const TrainingRun& run) {
  const std::string& tag = run.options.launch.attempt;
  if (tag.empty()) return std::nullopt;
  try {
    const std::vector<Attempt> attempts = read_attempts(run.out.root);
    if (attempts.empty() || attempts.back().tag != tag) return std::nullopt;
    const Attempt& first = attempts.front();
    return Restarts{.count = static_cast<std::int64_t>(attempts.size()) - 1,
                    .began_s = static_cast<double>(first.began_s),
                    .useful_seconds =
                        recorded_step_seconds(run.out.metrics(), first.first_step, run.engine->steps_done())};
  } catch (const std::exception& error) {
    log_warning(fmt::format("the metrics leave restarts and goodput out: {}", error.what()));
    return std::nullopt;
  }
}

RunFacts facts_of(const TrainingRun& run, const RunSummary& summary) {
  const JobConfig& config = run.options.config;
  const std::int64_t global_batch = config.train.global_batch;
  return {.run = std::filesystem::absolute(run.out.root).lexically_normal().string(),
          .info = info_of(config, summary),
          .throughput_unit = summary.throughput_unit,
          .resume_step = run.engine->steps_done(),
          .num_steps = run.num_steps(),
          .samples_per_step = global_batch,
          .targets_per_step = global_batch * run.data.train->targets_per_sample(),
          .peak_flops = run.peak_flops,
          .predicted_bytes = run.prediction.memory.peak_total,
          .limit_bytes = memory_limit(config, run.options.device, run.options.launch.num_local_ranks).bytes,
          .sent_by_axis = sent_by_axis(run.prediction),
          .restarts = restarts_before(run)};
}

struct AsHyperparameter {
  std::variant<bool, double, std::string> operator()(bool value) const { return value; }
  std::variant<bool, double, std::string> operator()(std::int64_t value) const {
    return static_cast<double>(value);
  }
  std::variant<bool, double, std::string> operator()(double value) const { return value; }
  std::variant<bool, double, std::string> operator()(const std::string& value) const { return value; }
  std::variant<bool, double, std::string> operator()(const auto& list) const { return to_toml(list); }
};

/// The keys that affect the result or the speed of training.
std::vector<Hyperparameter> hyperparameters_of(const JobConfig& config) {
  std::vector<Hyperparameter> found;
  for (const ConfigKey& key : config_keys()) {
    const bool is_outcome = key.section == "log" || key.section == "checkpoint";
    if (is_outcome || key.scope_without(config) != nullptr) continue;
    found.emplace_back(key.full_name(), std::visit(AsHyperparameter(), key.get(config)));
  }
  return found;
}

/// The GPUs to monitor, see LogSection::gpus.
std::optional<std::vector<std::string>> gpus_of(const TrainingRun& run) {
  std::vector<std::string> pci_bus_ids;
  switch (run.options.config.log.gpus) {
    case GpuSensorChoice::kAll:
      return std::nullopt;
    case GpuSensorChoice::kNone:
      break;
    case GpuSensorChoice::kJob:
      const Backend& backend = backend_for(run.options.device.type);
      if (backend.examine_devices == nullptr) break;
      for (const DeviceReport::Card& card : backend.examine_devices().devices) {
        if (!card.pci_bus_id.empty()) pci_bus_ids.push_back(card.pci_bus_id);
      }
  }
  return pci_bus_ids;
}

}  // namespace

std::unique_ptr<RunMonitor> start_monitor(const TrainingRun& run, const RunSummary& summary) {
  const LogSection& log = run.options.config.log;
  if (log.prometheus.empty() && log.listen.empty() && !log.tensorboard) return nullptr;
  auto monitor = std::make_unique<RunMonitor>(
      RunMonitor::Options{.metrics_file = log.prometheus.empty() ? std::filesystem::path()
                                                                 : metrics_file(log.prometheus, run.out.root),
                          .listen = log.listen,
                          .tensorboard = log.tensorboard ? run.out.tensorboard() : std::filesystem::path(),
                          .hyperparameters = hyperparameters_of(run.options.config),
                          .facts = facts_of(run, summary),
                          .pci_bus_ids = gpus_of(run)});
  if (monitor->server() && !monitor->server()->is_loopback()) {
    log_warning(fmt::format(
        "log.listen = \"{}\": whoever reaches this address can read the metrics of the run, without a "
        "password; \"127.0.0.1\" is this machine's alone",
        log.listen));
  }
  return monitor;
}

}  // namespace trireme
