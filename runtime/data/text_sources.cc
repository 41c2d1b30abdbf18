#include "runtime/data/text_sources.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <system_error>

#include "runtime/base/error.h"
#include "runtime/base/mapped_file.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

bool is_hidden(const fs::path& path) {
  return path.filename().string().starts_with('.');
}

/// Regular files below `folder`, sorted.
std::vector<fs::path> walk(const fs::path& folder, const fs::path& exclude) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;  // a broken link is no file
    if (is_hidden(entry->path())) {
      entry.disable_recursion_pending();
    } else if (entry->is_regular_file(ignored)) {
      files.push_back(entry->path());
    } else if (!exclude.empty() && fs::weakly_canonical(entry->path(), ignored) == exclude) {
      entry.disable_recursion_pending();
    }
  }
  TRIREME_CHECK(!error, "cannot walk folder {}: {}", folder.string(), error.message());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

TextSources find_text(std::span<const fs::path> inputs, const fs::path& exclude) {
  TextSources sources;
  std::set<fs::path> seen;
  const fs::path canonical_exclude = exclude.empty() ? fs::path() : fs::weakly_canonical(exclude);
  for (const fs::path& input : inputs) {
    std::error_code error;
    const fs::file_status status = fs::status(input, error);
    TRIREME_CHECK(fs::exists(status), "input {} does not exist{}", input.string(),
                  error && error != std::errc::no_such_file_or_directory ? ": " + error.message() : "");
    const bool folder = fs::is_directory(status);
    for (const fs::path& path : folder ? walk(input, canonical_exclude) : std::vector<fs::path>{input}) {
      if (!seen.insert(fs::weakly_canonical(path)).second) continue;
      const MappedFile file(path, "input");
      const auto bytes = file.bytes();
      if (bytes.empty()) {
        ++sources.num_skipped_empty;
      } else if (std::memchr(bytes.data(), 0, bytes.size()) != nullptr) {
        ++sources.num_skipped_binary;
      } else {
        sources.files.push_back(path);
        sources.bytes += static_cast<std::int64_t>(bytes.size());
      }
    }
  }
  return sources;
}

}  // namespace trireme
