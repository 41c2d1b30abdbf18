// Metrics of rank 0's machine: GPUs, cores, memory and the disk of the checkpoints.
//
// A thread of the lowest priority reads them once a second, so that a slow driver or disk delays neither a
// step nor a scrape.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "launcher/host/gpu_sensors.h"
#include "launcher/host/host_sensors.h"
#include "launcher/observe/prometheus_text.h"

namespace trireme {

/// Write the samples of a reading.
void write_host(PrometheusText& text, const HostReading& host);
void write_gpus(PrometheusText& text, const std::vector<GpuReading>& gpus);

class MachineMetrics {
 public:
  struct Options {
    std::filesystem::path checkpoints;  // may not exist yet
    // The GPUs to read, by PCI bus id; null: all GPUs of the machine.
    std::optional<std::vector<std::string>> pci_bus_ids = std::vector<std::string>{};
  };
  /// Reads once before it returns.
  explicit MachineMetrics(Options options);
  ~MachineMetrics();
  MachineMetrics(const MachineMetrics&) = delete;
  MachineMetrics& operator=(const MachineMetrics&) = delete;

  /// Thread-safe.
  void write(PrometheusText& text) const;

 private:
  void read();
  void read_on();

  const Options options_;
  GpuSensors sensors_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool end_ = false;
  HostReading host_;
  std::vector<GpuReading> gpus_;
  std::thread thread_;
};

}  // namespace trireme
