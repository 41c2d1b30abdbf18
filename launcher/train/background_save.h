// checkpoint.background: a checkpoint that threads write while training goes on.
//
// [Note: background checkpoints] Between two steps each rank copies its shard ([Note: snapshots]), rank 0
// makes the hidden folder with files of the right sizes, and a thread of each rank writes and syncs what the
// rank has of them. No thread communicates: how far a rank's is goes to the others with its report of each
// step ([Note: one exchange a step] in trainer.h). Once all have written, rank 0's thread reads the files for
// their checksums, writes the manifest, renames the folder and removes old checkpoints; a later exchange
// tells the others. So whoever dies, the folder is whole or hidden, and no checkpoint counts before every
// rank's part of it is on the device. A failure is seen at the next exchange and ends the job with the name
// of the file. With checkpoint.verify_every a bit that flips in a copy is such a failure. All ranks write one
// folder, which start_run() makes sure that they see.
//
// Rejected: gathering the state on rank 0, as a save in the foreground does, before the thread begins: the
// gather is most of the stall, and the copy would need the memory of the whole state on one host.
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

#include "launcher/train/run_checkpoint.h"
#include "parallel/run/snapshot_files.h"

namespace trireme {

class BackgroundSave {
 public:
  /// Of this rank.
  enum class Progress : std::int32_t {
    kNone,       // nothing is under way
    kWriting,    // its part
    kWritten,    // its part is on the device
    kFinishing,  // rank 0: the whole, from checksums to rename
    kDone,       // rank 0: the checkpoint is in its place
    kFailed,
  };
  struct Saved {
    std::int64_t step = 0;
    std::filesystem::path folder;  // on rank 0
    double stall_s = 0;            // in which training stood still
    double seconds = 0;            // until it was in its place
  };

  /// The engine has snapshots, and outlives this.
  explicit BackgroundSave(Engine& engine) : engine_(engine), files_(engine) {}
  /// What is under way is given up.
  ~BackgroundSave() { discard(); }
  BackgroundSave(const BackgroundSave&) = delete;
  BackgroundSave& operator=(const BackgroundSave&) = delete;

  bool is_active() const { return step_ >= 0; }
  /// Whether the checkpoint of `step` is under way.
  bool is_of(std::int64_t step) const { return step_ == step; }
  /// Takes the snapshot and starts the thread. Nothing may be under way. Rank 0 gives what is noted. `began`:
  /// when training stopped for it. Collective. Throws AgreedError.
  void start(const CheckpointStore& store, const RunState& state,
             const std::optional<std::filesystem::path>& tokenizer_model,
             std::chrono::steady_clock::time_point began);
  /// Notes the evaluation that was due. On rank 0, before another call of advance() or finish().
  void note_evaluation(double eval_loss);

  Progress progress() const { return progress_; }
  /// With the progress of all ranks, the same on each: takes the next step, if there is one. Collective where
  /// the checkpoint is done or has failed. Throws AgreedError for one that failed.
  std::optional<Saved> advance(std::span<const Progress> ranks);
  /// Waits until the checkpoint is in its place; nothing where none is under way. Collective. Throws
  /// AgreedError.
  std::optional<Saved> finish();
  /// Gives up what is under way, and removes it.
  void discard() noexcept;

 private:
  void run(Progress then, const std::function<void()>& work);
  void join();
  void put_in_place();  // rank 0
  void clear();
  Saved saved();

  Engine& engine_;
  SnapshotFiles files_;
  std::int64_t step_ = -1;  // that is under way; -1: none
  double stall_s_ = 0;
  std::chrono::steady_clock::time_point began_;
  std::filesystem::path place_;  // the hidden folder
  // Rank 0's, which its thread uses while it is finishing:
  std::optional<PendingCheckpoint> pending_;
  std::optional<CheckpointStore> store_;
  RunState state_;
  std::filesystem::path folder_;

  std::atomic<Progress> progress_ = Progress::kNone;
  std::atomic<bool> cancelled_ = false;
  std::exception_ptr error_;  // of the thread, once it has ended
  std::thread thread_;
};

}  // namespace trireme
