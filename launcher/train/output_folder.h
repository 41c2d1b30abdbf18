// The folder that a run writes: created, and proved writable before step 1.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "runtime/base/atomic_file.h"

namespace trireme {

struct OutputFolder {
  std::filesystem::path root;

  std::filesystem::path config() const { return root / "config.toml"; }
  std::filesystem::path run_id() const { return root / "run_id"; }  // [Note: whose copies]
  std::filesystem::path rollbacks() const { return root / "rollbacks.jsonl"; }
  std::filesystem::path metrics() const { return root / "metrics.jsonl"; }
  std::filesystem::path summary() const { return root / "summary.json"; }
  // Of the only traced step, or of one of several.
  std::filesystem::path trace_json(std::optional<std::int64_t> step) const;
  std::filesystem::path trace_svg(std::optional<std::int64_t> step) const;
  std::filesystem::path tensorboard() const { return root / "tensorboard"; }
  std::filesystem::path products() const { return root / "products.json"; }
  std::filesystem::path checkpoints() const { return root / "checkpoints"; }
};

/// Creates the folder with its parents, and writes and removes a file in it. A folder that another user may
/// have laid out is refused (check_folder_to_write()). Throws with the path and the system's reason:
/// Error(kRuntime) when the disk is full or fails, else Error(kInvalidInput).
OutputFolder prepare_output_folder(const std::filesystem::path& root);

/// Takes back a folder that a job has made and was refused in: removes it, and those of its parents that were
/// not there before either. A folder that was there when this began stays as it is.
class RefusedFolder {
 public:
  explicit RefusedFolder(std::filesystem::path root);
  ~RefusedFolder();
  RefusedFolder(const RefusedFolder&) = delete;
  RefusedFolder& operator=(const RefusedFolder&) = delete;

  /// Nothing was refused.
  void keep() { new_folders_.clear(); }

 private:
  std::vector<std::filesystem::path> new_folders_;  // from the root upwards
};

}  // namespace trireme
