// A card as measured by `trireme doctor --json`, for plans made on other machines.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace trireme {

struct MeasuredCard {
  std::string name;               // "NVIDIA H100 80GB HBM3"
  std::int64_t memory_bytes = 0;  // total
  // The part that tensors cannot use: the driver, a process's context and loaded libraries. It depends on
  // CUDA_MODULE_LOADING, which is EAGER in pipelines.
  std::int64_t context_bytes = 0;
  std::string file;

  /// The memory for a rank's tensors and workspaces.
  std::int64_t usable_bytes() const { return memory_bytes - context_bytes; }
};

/// The first card in the file. Throws Error(kInvalidInput) naming file and field if it is not doctor's
/// output, or doctor measured no card.
MeasuredCard read_measured_card(const std::filesystem::path& file);

}  // namespace trireme
