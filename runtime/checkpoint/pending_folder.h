// A folder that appears whole or not at all: filled under a hidden name beside its place, synced, renamed.
#pragma once

#include <filesystem>
#include <string>
#include <utility>

namespace trireme {

/// An entry that stays costs space only: that is logged.
void remove_or_log(const std::filesystem::path& folder) noexcept;
/// Throws Error(kRuntime) naming both.
void rename_or_throw(const std::filesystem::path& from, const std::filesystem::path& to);

/// About a folder that is there already, and not empty.
enum class OnExisting {
  kRefuse,
  kReplaceFiles,  // of the same names, each whole; others stay
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
  /// Makes ".<name>.tmp-<mark>" beside the place, and removes those of writers that died. Throws
  /// Error(kInvalidInput) where the place is a file, or a folder that `on_existing` refuses, or its parent is
  /// not writable.
  explicit PendingFolder(const FolderPlace& place);
  PendingFolder(const PendingFolder&) = delete;
  PendingFolder& operator=(const PendingFolder&) = delete;
  /// Removes it with its files unless commit() succeeded.
  ~PendingFolder();

  /// For the files, each synced by who writes it.
  const std::filesystem::path& path() const { return temporary_; }

  /// Syncs the names in it and gives it its own, or moves its files to the folder that is there. Throws
  /// Error(kRuntime).
  void commit();

 private:
  void remove_remains(const std::string& prefix) const;

  std::filesystem::path place_, temporary_;
  bool is_there_ = false;  // a folder whose files are replaced
};

}  // namespace trireme
