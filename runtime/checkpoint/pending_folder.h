// Atomic folder creation: filled under a hidden name in the same parent, synced, then renamed.
#pragma once

#include <filesystem>
#include <string>
#include <utility>

namespace trireme {

/// A folder that cannot be removed only costs space, so the failure is logged.
void remove_or_log(const std::filesystem::path& folder) noexcept;
/// Throws Error(kRuntime) naming both paths.
void rename_or_throw(const std::filesystem::path& from, const std::filesystem::path& to);

/// Policy for a folder that already exists and is not empty.
enum class OnExisting {
  kRefuse,
  kReplaceFiles,  // replaces files of the same names, each atomically; others stay
};

struct FolderPlace {
  FolderPlace(std::filesystem::path path,
              OnExisting what = OnExisting::kRefuse)  // NOLINT(google-explicit-constructor)
      : folder(std::move(path)), on_existing(what) {}

  std::filesystem::path folder;
  OnExisting on_existing;
};

class PendingFolder {
 public:
  /// Creates ".<name>.tmp-<mark>" in the same parent, and removes temporary folders of dead writers. Throws
  /// Error(kInvalidInput) if the target is a file, or an existing folder that `on_existing` refuses, or its
  /// parent is not writable.
  explicit PendingFolder(const FolderPlace& place);
  PendingFolder(const PendingFolder&) = delete;
  PendingFolder& operator=(const PendingFolder&) = delete;
  /// Removes the temporary folder with its files unless commit() succeeded.
  ~PendingFolder();

  /// Write the files here. Each writer syncs its own files.
  const std::filesystem::path& path() const { return temporary_; }

  /// Syncs the folder and renames it to its final name, or moves its files into the existing folder. Throws
  /// Error(kRuntime).
  void commit();

 private:
  void remove_remains(const std::string& prefix) const;

  std::filesystem::path place_, temporary_;
  bool is_there_ = false;  // the target exists and its files are replaced
};

}  // namespace trireme
