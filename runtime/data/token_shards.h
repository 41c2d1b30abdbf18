// Finds the token shards that the path of a job names.
#pragma once

#include <filesystem>
#include <vector>

namespace trireme {

/// Whether a path that does not exist as it is has `*`, `?` or `[`, and so stands for the files that match.
bool is_pattern(const std::filesystem::path& path);

/// A `.bin` file; the `*.bin` files of a folder; the files that a pattern such as
/// "shards/fineweb_train_*.bin" matches; the last two in order of name. Throws Error(kInvalidInput) naming
/// the path, and the working directory where it is relative, when there is nothing, and where both train.bin
/// and eval.bin of one folder are among the shards.
std::vector<std::filesystem::path> find_token_shards(const std::filesystem::path& path);

}  // namespace trireme
