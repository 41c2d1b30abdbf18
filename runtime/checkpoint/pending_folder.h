// A folder that appears whole or not at all: filled under a hidden name beside its place, synced, renamed.
#pragma once

#include <filesystem>
#include <string>

namespace trireme {

/// An entry that stays costs space only: that is logged.
void remove_or_log(const std::filesystem::path& folder) noexcept;
/// Throws Error(kRuntime) naming both.
void rename_or_throw(const std::filesystem::path& from, const std::filesystem::path& to);

class PendingFolder {
 public:
  /// Makes ".<name>.tmp-<mark>" beside `place`, and removes those of writers that died. Throws
  /// Error(kInvalidInput) where `place` is there already and not an empty folder, or its parent not writable.
  explicit PendingFolder(const std::filesystem::path& place);
  PendingFolder(const PendingFolder&) = delete;
  PendingFolder& operator=(const PendingFolder&) = delete;
  /// Removes it with its files unless commit() succeeded.
  ~PendingFolder();

  /// For the files, each synced by who writes it.
  const std::filesystem::path& path() const { return temporary_; }

  /// Syncs the names in it and gives it its own. Throws Error(kRuntime).
  void commit();

 private:
  void remove_remains(const std::string& prefix) const;

  std::filesystem::path place_, temporary_;
};

}  // namespace trireme
