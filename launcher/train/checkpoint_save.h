// Writes the checkpoints of a run: every rank writes its own pieces, and rank 0 the manifest.
//
// [Note: saving] Rank 0 creates the hidden folder with files of the final sizes, and every rank writes and
// syncs its pieces of the state in them ([Note: pieces of state]). Once all ranks have written, every rank
// reads its share of the files for their checksums. Then rank 0 writes the manifest, renames the folder and
// removes old checkpoints. So if any process dies, the folder is either whole or hidden, and a checkpoint
// never counts before every part of it is on the device. All ranks must see the folder; start_run() checks
// that.
//
// A save at once does all of that between two steps. With checkpoint.background each rank first copies its
// pieces ([Note: snapshots]), and a thread of each rank does the work while training continues. The threads
// do not communicate: each rank's progress is sent with its report of a step ([Note: one exchange a step] in
// trainer.h). The next exchange detects a failure and ends the job with the file's name. With
// checkpoint.verify_every, a flipped bit in a copy is such a failure.
//
// Rejected: gathering the state on rank 0. One host would send, hash and write the whole state.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launcher/host/progress_work.h"
#include "launcher/state/run_checkpoint.h"
#include "parallel/run/state_files.h"

namespace trireme {

class CheckpointSave {
 public:
  /// Progress of this rank.
  enum class Progress : std::int32_t {
    kNone,       // no save is active
    kWriting,    // writing its pieces
    kWritten,    // its pieces are on the device
    kHashing,    // reading its share of the files
    kHashed,     // its hashes are known
    kFinishing,  // rank 0: from the manifest to the rename
    kDone,       // rank 0: the checkpoint is complete
    kFailed,
  };
  struct Saved {
    std::int64_t step = 0;
    std::filesystem::path folder;  // on rank 0
    double stall_s = 0;            // training was stopped for this long
    double seconds = 0;            // until the checkpoint was complete
  };
  struct Job {
    const CheckpointStore& store;  // counts on rank 0 only, as do `state` and `tokenizer_model`
    const RunState& state;
    std::optional<std::filesystem::path> tokenizer_model;
    std::chrono::steady_clock::time_point began;  // when training stopped for the save
  };

  /// `engine` outlives this.
  explicit CheckpointSave(Engine& engine) : engine_(engine), files_(engine) {}
  /// Discards an active save.
  ~CheckpointSave() { discard(); }
  CheckpointSave(const CheckpointSave&) = delete;
  CheckpointSave& operator=(const CheckpointSave&) = delete;

  // No other save may be active. Collective. Throw AgreedError.
  /// Writes the checkpoint, and returns when it is complete.
  Saved save(const Job& job);
  /// Takes the snapshot and starts the thread. Requires EngineOptions::snapshots.
  void start(const Job& job);

  bool is_active() const { return step_ >= 0; }
  /// True if the checkpoint of `step` is being saved.
  bool is_of(std::int64_t step) const { return step_ == step; }
  /// Stores the result of an evaluation that was due. On rank 0, between calls of advance() and finish().
  void note_evaluation(double eval_loss);

  Progress progress() const { return work_.progress(); }
  /// Continues the save, if the progress of all ranks allows. `ranks` is the same on every rank. Collective
  /// once all ranks have hashed, or one has failed. Throws AgreedError if it failed.
  std::optional<Saved> advance(std::span<const Progress> ranks);
  /// Waits until the checkpoint is complete; null if no save is active. Collective. Throws AgreedError.
  std::optional<Saved> finish();
  /// Cancels the active save and removes its files.
  void discard() noexcept;

 private:
  void begin(const Job& job, StateFiles::State source);
  void put_in_place(const std::vector<std::uint64_t>& hashes);  // rank 0
  Saved saved();

  Engine& engine_;
  StateFiles files_;
  StateFiles::State source_ = StateFiles::State::kNow;
  std::int64_t step_ = -1;  // of the active save; -1: none
  double stall_s_ = 0;
  std::chrono::steady_clock::time_point began_;
  std::filesystem::path place_;  // the hidden folder
  std::vector<std::uint64_t> hashes_;
  // On rank 0; its thread uses these while it is finishing:
  std::optional<PendingCheckpoint> pending_;
  std::optional<CheckpointStore> store_;
  RunState state_;
  std::filesystem::path folder_;

  ProgressWork<Progress> work_;
};

}  // namespace trireme
