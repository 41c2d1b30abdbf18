// Everything that shows a run to programs beside metrics.jsonl: Prometheus's file and server, TensorBoard's
// event files. Rank 0 only. None of it ends a run that has begun: what cannot be written is a warning.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/observe/machine_metrics.h"
#include "launcher/observe/metrics_server.h"
#include "launcher/observe/run_metrics.h"
#include "launcher/observe/tensorboard_file.h"
#include "launcher/train/metrics.h"

namespace trireme {

class RunMonitor {
 public:
  struct Options {
    std::filesystem::path metrics_file;           // empty: none
    std::string listen;                           // log.listen; empty: no server
    std::filesystem::path tensorboard;            // the folder; empty: no event files
    std::vector<Hyperparameter> hyperparameters;  // for TensorBoard
    RunFacts facts;
    std::filesystem::path checkpoints;  // the folder, which may not be there yet
    std::optional<std::vector<std::string>> pci_bus_ids = std::vector<std::string>{};  // MachineMetrics's
  };
  /// Throws Error(kInvalidInput) naming the key where a file or a server cannot be made.
  explicit RunMonitor(Options options);
  // Where the run fails, its last numbers are what people look for: they are written.
  ~RunMonitor();
  RunMonitor(const RunMonitor&) = delete;
  RunMonitor& operator=(const RunMonitor&) = delete;

  void step(const StepMetrics& metrics);
  // `seconds`: how long it took.
  void eval(std::int64_t step, const EvalMetrics& metrics, double seconds);
  void checkpoint(std::int64_t step, double seconds);
  /// The run has come to its own end.
  void finish();

  /// Null: there is none.
  const MetricsServer* server() const { return server_.get(); }

 private:
  void write_file(double now_s);
  /// What the machine adds to the text of the run.
  std::string with_machine(std::string text) const;

  Options options_;
  RunMetrics metrics_;
  double last_write_s_ = 0;
  bool warned_ = false, finished_ = false;
  std::optional<TensorBoardFile> tensorboard_;
  std::optional<MachineMetrics> machine_;
  std::unique_ptr<MetricsServer> server_;  // last: its thread reads metrics_ and machine_
};

}  // namespace trireme
