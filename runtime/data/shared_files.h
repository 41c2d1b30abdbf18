// Finds files of one set of samples that another set has, too: evaluation data within the training data.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

#include "runtime/data/image_source.h"

namespace trireme {

struct SharedFiles {
  std::int64_t count = 0;             // files of `eval` that `train` has
  std::filesystem::path eval, train;  // the first of them
  bool is_copy = false;               // another file with the same bytes
};

/// Compares files by identity, whatever links lead to them, and then by their bytes where the sizes are
/// equal.
std::optional<SharedFiles> find_shared_files(std::span<const std::filesystem::path> train,
                                             std::span<const std::filesystem::path> eval);

/// Compares files by identity. The state of every file is read only where folders or links give a reason:
/// sets have millions of pictures.
std::optional<SharedFiles> find_shared_files(const ImageSource& train, const ImageSource& eval);

}  // namespace trireme
