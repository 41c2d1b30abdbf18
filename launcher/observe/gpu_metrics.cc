#include "launcher/observe/gpu_metrics.h"

#include <sys/resource.h>

#include <chrono>
#include <csignal>

namespace trireme {
namespace {

using enum MetricType;

/// Writes a family with a sample for each card that has the reading; nothing if none has.
template <class Read>
void write_family(PrometheusText& text, const std::vector<GpuReading>& gpus, const std::string& name,
                  MetricType type, const std::string& help, Read read) {
  bool begun = false;
  for (const GpuReading& gpu : gpus) {
    const std::optional<double> value = read(gpu);
    if (!value) continue;
    if (!begun) text.family("trireme_gpu_" + name, type, help);
    begun = true;
    text.sample(*value, {{"gpu", std::to_string(gpu.index)}});
  }
}

struct GpuFamily {
  const char* name;
  MetricType type;
  const char* help;
  std::optional<double> GpuReading::*value;
};

constexpr GpuFamily kGpuFamilies[] = {
    {"temperature_celsius", kGauge, "Temperature of the chip.", &GpuReading::temperature_celsius},
    {"power_watts", kGauge, "Power draw of the card.", &GpuReading::power_watts},
    {"power_limit_watts", kGauge, "Power limit of the card.", &GpuReading::power_limit_watts},
    {"energy_joules_total", kCounter, "Energy consumed since the driver was loaded.",
     &GpuReading::energy_joules},
    {"sm_clock_hertz", kGauge, "Clock of the multiprocessors.", &GpuReading::sm_clock_hertz},
    {"sm_clock_max_hertz", kGauge, "Highest clock of the multiprocessors.", &GpuReading::sm_clock_max_hertz},
    {"memory_clock_hertz", kGauge, "Clock of the memory.", &GpuReading::memory_clock_hertz},
    {"utilization_ratio", kGauge, "Share of the driver's last sample in which a kernel ran.",
     &GpuReading::utilization},
    {"memory_bandwidth_utilization_ratio", kGauge,
     "Share of the driver's last sample in which memory was read or written.",
     &GpuReading::memory_bandwidth_utilization},
    {"memory_used_bytes", kGauge, "Memory used by all processes.", &GpuReading::memory_used_bytes},
    {"memory_total_bytes", kGauge, "Memory of the card.", &GpuReading::memory_total_bytes},
    {"pcie_replays_total", kCounter, "PCIe transfers that were repeated.", &GpuReading::pcie_replays}};

void write_throttling(PrometheusText& text, const std::vector<GpuReading>& gpus) {
  bool begun = false;
  for (const GpuReading& gpu : gpus) {
    if (!gpu.throttle_bits) continue;
    if (!begun)
      text.family("trireme_gpu_throttled", kGauge, "1 if the reason holds the clocks below their maximum.");
    begun = true;
    for (const ThrottleReason& reason : kThrottleReasons) {
      text.sample(std::int64_t{(*gpu.throttle_bits & reason.bit) != 0},
                  {{"gpu", std::to_string(gpu.index)}, {"reason", reason.name}});
    }
  }
}

void write_errors(PrometheusText& text, const std::vector<GpuReading>& gpus) {
  struct Sample {
    double value;
    MetricLabels labels;
  };
  std::vector<Sample> ecc, nvlink, xid;
  for (const GpuReading& gpu : gpus) {
    const std::string index = std::to_string(gpu.index);
    if (gpu.ecc_corrected) ecc.push_back({*gpu.ecc_corrected, {{"gpu", index}, {"kind", "corrected"}}});
    if (gpu.ecc_uncorrected) ecc.push_back({*gpu.ecc_uncorrected, {{"gpu", index}, {"kind", "uncorrected"}}});
    for (const auto& [kind, count] : gpu.nvlink_errors) {
      nvlink.push_back({count, {{"gpu", index}, {"kind", kind}}});
    }
    if (gpu.xid_errors) xid.push_back({static_cast<double>(*gpu.xid_errors), {{"gpu", index}}});
  }
  const auto write = [&](const char* name, const char* help, const std::vector<Sample>& samples) {
    if (samples.empty()) return;
    text.family(name, kCounter, help);
    for (const Sample& sample : samples) text.sample(sample.value, sample.labels);
  };
  write("trireme_gpu_ecc_errors_total", "Memory errors since the driver was loaded.", ecc);
  write("trireme_gpu_nvlink_errors_total", "Errors of all links of the card.", nvlink);
  write("trireme_gpu_xid_errors_total", "Errors (XID) that the driver reported since this process began.",
        xid);
  write_family(text, gpus, "last_xid", kGauge, "Number of the last XID error.", [](const GpuReading& gpu) {
    return gpu.last_xid ? std::optional(static_cast<double>(*gpu.last_xid)) : std::nullopt;
  });
}

}  // namespace

void write_gpus(PrometheusText& text, const std::vector<GpuReading>& gpus) {
  if (gpus.empty()) return;
  text.family("trireme_gpu_info", kGauge, "One sample for each GPU that is read; always 1.");
  for (const GpuReading& gpu : gpus) {
    text.sample(std::int64_t{1}, {{"gpu", std::to_string(gpu.index)},
                                  {"name", gpu.name},
                                  {"uuid", gpu.uuid},
                                  {"pci_bus_id", gpu.pci_bus_id}});
  }
  text.family("trireme_gpu_lost", kGauge, "1 if the driver cannot reach the card any more.");
  for (const GpuReading& gpu : gpus) {
    text.sample(std::int64_t{gpu.lost}, {{"gpu", std::to_string(gpu.index)}});
  }
  for (const GpuFamily& family : kGpuFamilies) {
    write_family(text, gpus, family.name, family.type, family.help,
                 [&](const GpuReading& gpu) { return gpu.*family.value; });
  }
  write_throttling(text, gpus);
  write_errors(text, gpus);
}

GpuMetrics::GpuMetrics(std::optional<std::vector<std::string>> pci_bus_ids)
    : sensors_(std::move(pci_bus_ids)) {
  read();
  if (gpus_.empty()) return;
  // Signals are delivered to the rank's main thread.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { read_on(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

GpuMetrics::~GpuMetrics() {
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void GpuMetrics::read() {
  std::vector<GpuReading> gpus = sensors_.read();
  const std::lock_guard lock(mutex_);
  gpus_ = std::move(gpus);
}

void GpuMetrics::read_on() {
  constexpr int kLowestPriority = 19;
  constexpr std::chrono::seconds kBetweenReadings{1};
  setpriority(PRIO_PROCESS, 0, kLowestPriority);  // affects only this thread, on Linux
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, kBetweenReadings, [this] { return end_; })) {
    lock.unlock();
    read();
    lock.lock();
  }
}

void GpuMetrics::write(PrometheusText& text) const {
  std::vector<GpuReading> gpus;
  {
    const std::lock_guard lock(mutex_);
    gpus = gpus_;
  }
  write_gpus(text, gpus);
}

}  // namespace trireme
