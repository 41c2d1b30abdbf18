// The folder that a run writes: created, and proved writable before step 1.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "runtime/base/atomic_file.h"

namespace trireme {

struct OutputFolder {
  std::filesystem::path root;

  std::filesystem::path config() const { return root / "config.toml"; }
  std::filesystem::path metrics() const { return root / "metrics.jsonl"; }
  std::filesystem::path summary() const { return root / "summary.json"; }
  // Of the only traced step, or of one of several.
  std::filesystem::path trace_json(std::optional<std::int64_t> step) const;
  std::filesystem::path trace_svg(std::optional<std::int64_t> step) const;
  std::filesystem::path tensorboard() const { return root / "tensorboard"; }
  std::filesystem::path products() const { return root / "products.json"; }
  std::filesystem::path checkpoints() const { return root / "checkpoints"; }
};

/// Creates the folder with its parents, and writes and removes a file in it. Throws Error(kInvalidInput) with
/// the path and the system's reason.
OutputFolder prepare_output_folder(const std::filesystem::path& root);

}  // namespace trireme
