// Starts a run: checks the job, chooses a checkpoint, builds the engine, restores its state and opens the
// log.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "launcher/data/data_check.h"
#include "launcher/data/token_data.h"
#include "launcher/host/env.h"
#include "launcher/job/build.h"
#include "launcher/records/output_folder.h"
#include "launcher/records/record_writer.h"
#include "launcher/state/run_checkpoint.h"
#include "launcher/train/folder_lock.h"
#include "launcher/train/output_watch.h"
#include "launcher/train/partner_start.h"
#include "launcher/train/run_log.h"
#include "launcher/train/training_batches.h"

namespace trireme {

/// Calls into a program that embeds the training loop; empty: none.
struct TrainingHooks {
  std::function<void(const std::string& line)> on_metrics;  // on rank 0: each line of metrics.jsonl
  /// On every rank, after a step with its checkpoint and evaluation. The ranks may make collective calls.
  std::function<void()> after_step;
};

struct RunOptions {
  JobConfig config;                         // resolved, the same on every rank
  std::shared_ptr<const BlockList> blocks;  // of config.model
  std::filesystem::path out;
  LaunchEnvironment launch;
  std::shared_ptr<Communicator> comm;
  Device device;
  BitFacts arithmetic = {};  // the same on every rank; stored in checkpoints
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();  // of the process
  Watchdog* watchdog = nullptr;                  // the session's, for learned limits; may be null
  std::shared_ptr<Communicator> host = nullptr;  // over host memory; null: use `comm`
  RecordWriter* records = nullptr;               // may be null
  std::optional<JobData> data = std::nullopt;    // replaces the data that the job names
  TrainingHooks hooks = {};
};

/// A run on one rank, ready for its next step.
struct TrainingRun {
  RunOptions options;
  OutputFolder out;
  CheckpointStore store;
  EngineOptions engine_options;
  JobData data;
  std::unique_ptr<FolderLock> lock;  // rank 0
  std::optional<PreparedData> prepared;
  StepPrediction prediction;
  std::filesystem::path resume_folder;  // empty: a fresh start
  RunState resumed;
  DataRecord record;         // of the job's data; fingerprints on rank 0 only. For samples see sample_at()
  DataChanges data_changes;  // compared with the checkpoint's
  std::int64_t first_sample = 0;          // of this process's first step
  std::unique_ptr<PartnerStart> partner;  // checkpoint.partner
  MeasuredProducts products;              // see choose_products
  HfExtras hf_extras;                     // kept for `trireme export`
  std::vector<std::string> new_tensors;   // tensors that model.init_from lacks
  std::vector<std::string> import_notes;  // logged once: notes on model.from and model.init_from
  double step_flops = 0;                  // floating-point operations of a step, over all ranks
  double peak_flops = 0;                  // peak FLOP/s of all ranks; 0: not measured. [Note: MFU]
  std::unique_ptr<Engine> engine;
  std::unique_ptr<TrainingBatches> batches;
  std::unique_ptr<RunLog> log;         // rank 0
  std::unique_ptr<OutputWatch> watch;  // rank 0
  std::int64_t last_saved_step = -1;

  Communicator& comm() const { return *options.comm; }
  bool is_first() const { return comm().rank() == 0; }
  std::int64_t num_steps() const { return options.config.train.steps; }
  /// The position in the training data after `steps_done` steps: samples consumed.
  std::int64_t sample_at(std::int64_t steps_done) const {
    return first_sample + (steps_done - resumed.step) * options.config.train.global_batch;
  }
  /// Shows `text` as this rank's action to the other ranks while the result lives, for work outside a step's
  /// plan.
  Watchdog::Scope watched(std::string text) const { return {comm().status().get(), std::move(text)}; }
  /// Runs `stage`; adds the keys that would help to an Error(kOutOfMemory).
  void with_memory_advice(const std::function<void()>& stage) const;
  /// Collective. The hash of the state. Throws if the ranks differ.
  std::string agreed_state_hash() const;
};

/// Collective. Throws AgreedError if the job is refused before step 1.
TrainingRun start_run(RunOptions options);

}  // namespace trireme
