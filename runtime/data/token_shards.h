// Finds the token shards of a job's data path.
#pragma once

#include <filesystem>
#include <vector>

namespace trireme {

/// True if a path does not exist and contains `*`, `?` or `[`, so that it is a pattern.
bool is_pattern(const std::filesystem::path& path);

/// A `.bin` file; the `*.bin` files of a folder; or the files matching a pattern such as
/// "shards/fineweb_train_*.bin". Folders and patterns are sorted by name. Throws Error(kInvalidInput) if
/// nothing is found, naming the path and, for a relative path, the working directory; also if both train.bin
/// and eval.bin of one folder are among the shards.
std::vector<std::filesystem::path> find_token_shards(const std::filesystem::path& path);

}  // namespace trireme
