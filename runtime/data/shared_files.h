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
  std::int64_t num_compared = 0;      // files of `eval`
};

/// Files that a comparison of pictures opens, of which it reads the last 4 kB.
inline constexpr std::int64_t kMaxFilesRead = 65'536;

/// Compares files by identity, whatever links lead to them, and then by their bytes where the sizes are
/// equal.
std::optional<SharedFiles> find_shared_files(std::span<const std::filesystem::path> train,
                                             std::span<const std::filesystem::path> eval);

/// Compares pictures by identity and, where that finds none, by their bytes. It reads the sizes of all files,
/// and opens those of a size that both sets have: all of them, or as many of `eval`, from all over the set,
/// as `max_files_read` allows.
std::optional<SharedFiles> find_shared_files(const ImageSource& train, const ImageSource& eval,
                                             std::int64_t max_files_read = kMaxFilesRead);

}  // namespace trireme
