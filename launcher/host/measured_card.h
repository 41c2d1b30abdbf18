// A card as `trireme doctor --json` has measured it, for plans that are made elsewhere.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace trireme {

struct MeasuredCard {
  std::string name;               // "NVIDIA H100 80GB HBM3"
  std::int64_t memory_bytes = 0;  // all of it
  // Of it, what no tensor can have: the driver's, a process's context, and libraries that are loaded. It
  // depends on CUDA_MODULE_LOADING, which is EAGER in pipelines.
  std::int64_t context_bytes = 0;
  std::string file;

  /// The memory of a rank's tensors and workspaces.
  std::int64_t usable_bytes() const { return memory_bytes - context_bytes; }
};

/// The first card of the file. Throws Error(kInvalidInput) naming file and field where it is not what doctor
/// prints, or doctor has measured none.
MeasuredCard read_measured_card(const std::filesystem::path& file);

}  // namespace trireme
