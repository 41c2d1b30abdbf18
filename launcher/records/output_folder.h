// The output folder of a run: created, and tested for writing before step 1.
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
  // `step`: null if only one step is traced.
  std::filesystem::path trace_json(std::optional<std::int64_t> step) const;
  std::filesystem::path trace_svg(std::optional<std::int64_t> step) const;
  std::filesystem::path tensorboard() const { return root / "tensorboard"; }
  std::filesystem::path products() const { return root / "products.json"; }
  std::filesystem::path checkpoints() const { return root / "checkpoints"; }
};

/// Creates the folder and its parents, then writes and removes a test file. Refuses a folder that another
/// user may have prepared (check_folder_to_write()). Throws with the path and the system's reason:
/// Error(kRuntime) if the disk is full or fails, else Error(kInvalidInput).
OutputFolder prepare_output_folder(const std::filesystem::path& root);

/// Removes the output folder of a refused job, and the parents that the job created. A folder that
/// already existed is kept.
class RefusedFolder {
 public:
  explicit RefusedFolder(std::filesystem::path root);
  ~RefusedFolder();
  RefusedFolder(const RefusedFolder&) = delete;
  RefusedFolder& operator=(const RefusedFolder&) = delete;

  /// The job was not refused.
  void keep() { new_folders_.clear(); }

 private:
  std::vector<std::filesystem::path> new_folders_;  // from the root upwards
};

}  // namespace trireme
