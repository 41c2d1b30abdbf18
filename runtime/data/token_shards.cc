#include "runtime/data/token_shards.h"

#include <glob.h>

#include <algorithm>
#include <system_error>

#include "runtime/base/error.h"
#include "runtime/base/folder_file.h"
#include "runtime/base/regular_file.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> match(const fs::path& pattern) {
  glob_t found{};
  const int result = ::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found);
  std::vector<fs::path> paths(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  TRIREME_CHECK(result == 0 && !paths.empty(), "no file matches the pattern {} (working directory: {})",
                pattern.string(), fs::current_path().string());
  return paths;
}

std::vector<fs::path> list(const fs::path& folder) {
  std::vector<fs::path> shards;
  std::error_code error;
  bool has_other_files = false;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const bool is_shard =
        entry->path().extension() == ".bin" && entry->path().filename().string().front() != '.';
    if (is_shard) {
      check_is_within({.folder = folder, .name = entry->path().filename().string(), .what = "token shard"});
      shards.push_back(entry->path());
    }
    has_other_files = has_other_files || !is_shard;
  }
  TRIREME_CHECK(!error, "cannot list token folder {}: {}", folder.string(), error.message());
  TRIREME_CHECK(
      !shards.empty(), "folder {} has no token shards (*.bin){}", folder.string(),
      has_other_files
          ? fmt::format(": make them from its text with `trireme data text {} --out DIR`", folder.string())
          : ": it is empty");
  return shards;
}

}  // namespace

bool is_pattern(const fs::path& path) {
  std::error_code error;
  return path.string().find_first_of("*?[") != std::string::npos && !fs::exists(path, error);
}

std::vector<fs::path> find_token_shards(const fs::path& path) {
  std::error_code error;
  std::vector<fs::path> shards;
  if (is_pattern(path)) {
    shards = match(path);
  } else {
    const fs::file_status status = fs::status(path, error);
    TRIREME_CHECK(fs::exists(status), "token data {}", describe_missing(path));
    if (!fs::is_directory(status)) return {path};
    shards = list(path);
  }
  std::sort(shards.begin(), shards.end());
  // `trireme data text` writes both files: using both would train on the evaluation tokens.
  for (const fs::path& shard : shards) {
    const bool both = shard.filename() == "train.bin" &&
                      std::ranges::find(shards, shard.parent_path() / "eval.bin") != shards.end();
    TRIREME_CHECK(!both, "{} {} has both train.bin and eval.bin; name one of the two files",
                  is_pattern(path) ? "pattern" : "folder", path.string());
  }
  return shards;
}

}  // namespace trireme
