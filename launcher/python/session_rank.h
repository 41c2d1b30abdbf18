// One rank of a session: its engine, and the work that it does with the other ranks.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "launcher/python/block_library.h"
#include "launcher/train/settled_run.h"
#include "launcher/train/stop_request.h"

namespace trireme {

class SessionRank {
 public:
  /// The job, the same for all ranks.
  struct Job {
    JobConfig config;             // resolved
    std::optional<JobData> data;  // in place of the samples of data.kind = "synthetic"
    OwnBlocks blocks = {};        // empty: the model's
  };
  SessionRank(const Job& job, RunPlace place) : job_(job), place_(std::move(place)) {}  // `job` outlives this

  Communicator& comm() const { return *place_.comm; }
  /// Null until make_engine() or train().
  Engine* engine() const { return engine_; }
  const JobConfig& config() const { return options_->config; }

  // Collective:
  /// The engine with the initial state of the job.
  void make_engine();
  /// Trains as `trireme train` does. `hooks` receive the metrics and each step.
  void train(const std::filesystem::path& out, TrainingHooks hooks, const StopRequest& stop);
  /// Throws if the states of the ranks differ.
  std::string agreed_hash();
  /// Writes a checkpoint of samples that a program passed to step(); returns its folder on rank 0.
  std::filesystem::path save(const std::filesystem::path& out);
  void resume(const std::filesystem::path& place);
  void drop_engine() { owned_.reset(); }

 private:
  void settle(const std::filesystem::path& out);

  const Job& job_;
  const RunPlace place_;
  std::optional<RunOptions> options_;
  std::unique_ptr<Engine> owned_;  // null during a training
  Engine* engine_ = nullptr;
};

}  // namespace trireme
