// A folder of checkpoints, `step-NNNNNN/`, in which every entry is complete or ignored.
//
// [Note: whole checkpoints] A checkpoint is written into a hidden folder in the same parent, its manifest
// last. All files are synced, and then the folder is renamed. A checkpoint to be replaced is first renamed to
// a hidden name, and removed afterwards. It still counts as long as no folder has its final name. So the old
// or the new checkpoint can be found at any moment, whichever process dies. Names of hidden folders contain
// the mark of their writer. The next writer removes the folders of dead writers.
//
//     .tmp-step-000010-<mark>   being written
//     .old-step-000010-<mark>   being replaced; complete
//     .del-step-000010-<mark>   being removed
//
// Rejected: a lock file, which outlives its holder on some network file systems and then blocks the job that
// resumes. Rejected: exchanging both folders in one system call (RENAME_EXCHANGE); NFS lacks it, so both
// methods would be needed. Rejected: removing the old one first, as a kill in between loses both.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/pending_checkpoint.h"

namespace trireme {

/// A complete checkpoint.
struct Checkpoint {
  std::filesystem::path folder;
  Manifest manifest;
};

/// Opens one checkpoint folder. Throws Error(kInvalidInput) naming the missing or damaged file.
Checkpoint open_checkpoint(const std::filesystem::path& folder, Verify verify);

/// Allows many readers and one writing process at a time.
class CheckpointStore {
 public:
  /// `root` may be missing before begin().
  explicit CheckpointStore(std::filesystem::path root) : root_(std::move(root)) {}

  const std::filesystem::path& root() const { return root_; }
  /// `root`/step-NNNNNN, at least six digits.
  std::filesystem::path folder_of(std::int64_t step) const;

  /// Starts a checkpoint, after removing the folders of dead writers. Throws Error(kInvalidInput) when the
  /// folder is not writable.
  PendingCheckpoint begin(std::int64_t step);
  /// True if there is any checkpoint, complete or damaged; folders of dead writers do not count.
  bool holds_any() const;
  /// The complete checkpoint of the highest step. Skips damaged ones and folders of dead writers, with a
  /// warning that names the folder and the reason.
  std::optional<Checkpoint> latest(Verify verify) const;
  /// All complete checkpoints, highest step first. Warns like latest().
  std::vector<Checkpoint> list(Verify verify) const;
  /// Keeps the `keep` (>= 1) complete checkpoints of the highest steps, as found with `verify`, and removes
  /// the other complete ones. Damaged ones stay for inspection. A failed removal is a warning.
  void prune(std::int64_t keep, Verify verify);

 private:
  void clear_remains();

  std::filesystem::path root_;
};

}  // namespace trireme
