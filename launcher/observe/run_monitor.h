// Shows a run to other programs, in addition to metrics.jsonl: Prometheus file and server, TensorBoard event
// files. Rank 0 only. After the start, failures only cause warnings and never end a run.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/observe/gpu_metrics.h"
#include "launcher/observe/metrics.h"
#include "launcher/observe/metrics_server.h"
#include "launcher/observe/run_metrics.h"
#include "launcher/observe/tensorboard_file.h"

namespace trireme {

class RunMonitor {
 public:
  struct Options {
    std::filesystem::path metrics_file;           // empty: none
    std::string listen;                           // log.listen; empty: no server
    std::filesystem::path tensorboard;            // a folder; empty: no event files
    std::vector<Hyperparameter> hyperparameters;  // for TensorBoard
    RunFacts facts;
    std::optional<std::vector<std::string>> pci_bus_ids = std::vector<std::string>{};  // for GpuMetrics
  };
  /// Throws Error(kInvalidInput) naming the key if a file or a server cannot be created.
  explicit RunMonitor(Options options);
  // Writes the last values, which people need if the run failed.
  ~RunMonitor();
  RunMonitor(const RunMonitor&) = delete;
  RunMonitor& operator=(const RunMonitor&) = delete;

  void step(const StepMetrics& metrics);
  // `seconds`: duration of the evaluation.
  void eval(std::int64_t step, const EvalMetrics& metrics, double seconds);
  void checkpoint(std::int64_t step, double seconds);
  /// Call when the run ends without an error.
  void finish();

  /// May be null.
  const MetricsServer* server() const { return server_.get(); }

 private:
  void write_file(double now_s);
  /// Appends the metrics of the GPUs.
  std::string with_gpus(std::string text) const;

  Options options_;
  RunMetrics metrics_;
  double last_write_s_ = 0;
  bool warned_ = false, finished_ = false;
  std::optional<TensorBoardFile> tensorboard_;
  std::optional<GpuMetrics> gpus_;
  std::unique_ptr<MetricsServer> server_;  // last member: its thread reads metrics_ and gpus_
};

}  // namespace trireme
