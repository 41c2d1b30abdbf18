// checkpoint.background: threads write a checkpoint while training continues.
//
// [Note: background checkpoints] Between two steps each rank copies its shard ([Note: snapshots]), and rank 0
// creates the hidden folder with files of the final sizes. A thread of each rank writes and syncs the rank's
// part of the files. The threads do not communicate: each rank's progress is sent with its report of a step
// ([Note: one exchange a step] in trainer.h). Once all parts are written, rank 0's thread reads the files for
// their checksums, writes the manifest, renames the folder and removes old checkpoints. A later exchange
// reports this to the others. So if any process dies, the folder is either whole or hidden, and a checkpoint
// never counts before every part of it is on the device. The next exchange detects a failure and ends the job
// with the file's name. With checkpoint.verify_every, a flipped bit in a copy is such a failure. All ranks
// write to one folder; start_run() checks that they all see it.
//
// Rejected: gathering the state on rank 0, as a foreground save does, before the thread begins. The gather is
// most of the stall, and one host would need memory for the whole state.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "launcher/state/run_checkpoint.h"
#include "parallel/run/snapshot_files.h"

namespace trireme {

class BackgroundSave {
 public:
  /// Progress of this rank.
  enum class Progress : std::int32_t {
    kNone,       // no save is active
    kWriting,    // writing its part
    kWritten,    // its part is on the device
    kFinishing,  // rank 0: from checksums to rename
    kDone,       // rank 0: the checkpoint is complete
    kFailed,
  };
  struct Saved {
    std::int64_t step = 0;
    std::filesystem::path folder;  // on rank 0
    double stall_s = 0;            // training was stopped for this long
    double seconds = 0;            // until the checkpoint was complete
  };

  /// `engine` has snapshots and outlives this.
  explicit BackgroundSave(Engine& engine) : engine_(engine), files_(engine) {}
  /// Discards an active save.
  ~BackgroundSave() { discard(); }
  BackgroundSave(const BackgroundSave&) = delete;
  BackgroundSave& operator=(const BackgroundSave&) = delete;

  bool is_active() const { return step_ >= 0; }
  /// True if the checkpoint of `step` is being saved.
  bool is_of(std::int64_t step) const { return step_ == step; }
  /// Takes the snapshot and starts the thread. No other save may be active. `state` counts on rank 0 only.
  /// `began`: when training stopped for the save. Collective. Throws AgreedError.
  void start(const CheckpointStore& store, const RunState& state,
             const std::optional<std::filesystem::path>& tokenizer_model,
             std::chrono::steady_clock::time_point began);
  /// Stores the result of an evaluation that was due. On rank 0, between calls of advance() and finish().
  void note_evaluation(double eval_loss);

  Progress progress() const { return progress_; }
  /// Continues the save, if the progress of all ranks allows. `ranks` is the same on every rank. Collective
  /// once the checkpoint is done or has failed. Throws AgreedError if it failed.
  std::optional<Saved> advance(std::span<const Progress> ranks);
  /// Waits until the checkpoint is complete; null if no save is active. Collective. Throws AgreedError.
  std::optional<Saved> finish();
  /// Cancels the active save and removes its files.
  void discard() noexcept;

 private:
  void run(Progress then, const std::function<void()>& work);
  void join();
  void put_in_place();  // rank 0
  void clear();
  Saved saved();

  Engine& engine_;
  SnapshotFiles files_;
  std::int64_t step_ = -1;  // of the active save; -1: none
  double stall_s_ = 0;
  std::chrono::steady_clock::time_point began_;
  std::filesystem::path place_;  // the hidden folder
  // On rank 0; its thread uses these while it is finishing:
  std::optional<PendingCheckpoint> pending_;
  std::optional<CheckpointStore> store_;
  RunState state_;
  std::filesystem::path folder_;

  std::atomic<Progress> progress_ = Progress::kNone;
  std::atomic<bool> cancelled_ = false;
  std::exception_ptr error_;  // of the thread; read after it has ended
  std::thread thread_;
};

}  // namespace trireme
