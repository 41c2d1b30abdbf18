// The folder that a run writes: created, and proved writable before step 1.
#pragma once

#include <filesystem>

#include "runtime/base/atomic_file.h"

namespace trireme {

struct OutputFolder {
  std::filesystem::path root;

  std::filesystem::path config() const { return root / "config.toml"; }
  std::filesystem::path metrics() const { return root / "metrics.jsonl"; }
  std::filesystem::path summary() const { return root / "summary.json"; }
  std::filesystem::path trace_json() const { return root / "trace.json"; }
  std::filesystem::path trace_svg() const { return root / "trace.svg"; }
  std::filesystem::path tensorboard() const { return root / "tensorboard"; }
  std::filesystem::path checkpoints() const { return root / "checkpoints"; }
};

/// Creates the folder with its parents, and writes and removes a file in it. Throws Error(kInvalidInput) with
/// the path and the system's reason.
OutputFolder prepare_output_folder(const std::filesystem::path& root);

}  // namespace trireme
