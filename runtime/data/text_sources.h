// Finds the text files that a list of files and folders stands for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace trireme {

struct TextSources {
  std::vector<std::filesystem::path> files;  // in order of the inputs; within a folder, of the path
  std::int64_t bytes = 0;                    // of these files
  std::int64_t num_skipped_binary = 0;       // files with a NUL byte
  std::int64_t num_skipped_empty = 0;
};

/// Takes files as they are given and walks folders recursively, leaving out names that begin with a dot,
/// links to folders and everything below `exclude` (where the results go). A file that is reached twice
/// counts once. Throws Error(kInvalidInput) naming an input that is missing or unreadable.
TextSources find_text(std::span<const std::filesystem::path> inputs, const std::filesystem::path& exclude);

}  // namespace trireme
