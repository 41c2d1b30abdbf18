// Finds files that two sets of samples share: evaluation data within the training data.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>

#include "runtime/data/image_source.h"

namespace trireme {

struct SharedFiles {
  std::int64_t count = 0;             // files of `eval` that are in `train`
  std::filesystem::path eval, train;  // the first such pair
  bool is_copy = false;               // another file with the same bytes
  std::int64_t num_compared = 0;      // files of `eval`
};

/// Maximum number of files that a comparison of images opens; it reads the last 4 kB of each.
inline constexpr std::int64_t kMaxFilesRead = 65'536;

/// Compares files by identity, through links, and then by bytes if the sizes are equal.
std::optional<SharedFiles> find_shared_files(std::span<const std::filesystem::path> train,
                                             std::span<const std::filesystem::path> eval);

/// Calls visit(path) for each file of a set of images.
using ImageFiles = std::function<void(const std::function<void(const std::filesystem::path&)>& visit)>;

/// Compares images by identity, and if that finds none, by bytes. It reads the sizes of all files and opens
/// the files whose size occurs in both sets. `max_files_read` limits the number of files of `eval`, sampled
/// from the whole set.
std::optional<SharedFiles> find_shared_images(const ImageFiles& train, const ImageFiles& eval,
                                              std::int64_t max_files_read = kMaxFilesRead);
std::optional<SharedFiles> find_shared_files(const ImageSource& train, const ImageSource& eval,
                                             std::int64_t max_files_read = kMaxFilesRead);

}  // namespace trireme
