// A folder of checkpoints, `step-NNNNNN/`, in which every entry is whole or ignored.
//
// [Note: whole checkpoints] A checkpoint is written into a hidden folder beside its place, its manifest last;
// everything is synced; then the folder is renamed. One that is to be replaced is renamed to a hidden name
// first and removed after, and counts as long as its place is empty. So at any moment, whoever dies, the old
// or the new one can be found. Hidden folders carry the mark of their writer; those of dead ones are removed
// by the next writer.
//
//     .tmp-step-000010-<mark>   being written
//     .old-step-000010-<mark>   being replaced; whole
//     .del-step-000010-<mark>   being removed
//
// Rejected: a lock file, which outlives its holder on some network file systems and then blocks the job that
// wants to resume; exchanging the old and the new folder in one system call (RENAME_EXCHANGE), which NFS does
// not have, so both methods would be needed; removing the old one first, as a kill in between loses both.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/pending_checkpoint.h"

namespace trireme {

/// A whole checkpoint.
struct Checkpoint {
  std::filesystem::path folder;
  Manifest manifest;
};

/// Opens one checkpoint folder. Throws Error(kInvalidInput) saying what is missing or damaged.
Checkpoint open_checkpoint(const std::filesystem::path& folder, Verify verify);

/// Readers may be many; one process writes at a time.
class CheckpointStore {
 public:
  /// `root` need not exist before begin().
  explicit CheckpointStore(std::filesystem::path root) : root_(std::move(root)) {}

  const std::filesystem::path& root() const { return root_; }
  /// `root`/step-NNNNNN, at least six digits.
  std::filesystem::path folder_of(std::int64_t step) const;

  /// Starts a checkpoint, after clearing up what dead writers left. Throws Error(kInvalidInput) when the
  /// folder is not writable.
  PendingCheckpoint begin(std::int64_t step);
  /// True when there is any checkpoint, whole or damaged; remains of dead writers do not count.
  bool holds_any() const;
  /// The whole checkpoint of the highest step. Damaged ones and remains of dead writers are passed over with
  /// a warning that says which and why.
  std::optional<Checkpoint> latest(Verify verify) const;
  /// All whole checkpoints, highest step first. Warns like latest().
  std::vector<Checkpoint> list(Verify verify) const;
  /// Removes all whole checkpoints, as `verify` finds them, but the `keep` (>= 1) of the highest steps.
  /// Damaged ones stay for whoever wants to look at them. What cannot be removed is a warning.
  void prune(std::int64_t keep, Verify verify);

 private:
  void clear_remains();

  std::filesystem::path root_;
};

}  // namespace trireme
