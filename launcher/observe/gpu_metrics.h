// Metrics of the GPUs of rank 0's machine.
//
// A thread of the lowest priority reads them once a second, so that a slow driver delays neither a step nor a
// scrape. The host's cores, memory and disks are left to node-exporter.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "launcher/host/gpu_sensors.h"
#include "launcher/observe/prometheus_text.h"

namespace trireme {

/// Writes the samples of a reading; nothing without GPUs.
void write_gpus(PrometheusText& text, const std::vector<GpuReading>& gpus);

class GpuMetrics {
 public:
  /// `pci_bus_ids`: the GPUs to read; null: all GPUs of the machine. Reads once before it returns.
  /// Without GPUs there is nothing to read again, and no thread.
  explicit GpuMetrics(std::optional<std::vector<std::string>> pci_bus_ids);
  ~GpuMetrics();
  GpuMetrics(const GpuMetrics&) = delete;
  GpuMetrics& operator=(const GpuMetrics&) = delete;

  /// Thread-safe.
  void write(PrometheusText& text) const;

 private:
  void read();
  void read_on();

  GpuSensors sensors_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool end_ = false;
  std::vector<GpuReading> gpus_;
  std::thread thread_;  // only with GPUs
};

}  // namespace trireme
