// The folders of runs, and the files in them that a page may show.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

/// `folder`/`name`, a file that is there and lies within the folder: links that lead out of it are followed
/// to nothing, because a page may be open to others than the owner of the files.
std::optional<std::filesystem::path> file_within(const std::filesystem::path& folder,
                                                 const std::string& name);

/// Its text; empty where there is none, or where it is longer than `max_bytes`.
std::string text_within(const std::filesystem::path& folder, const std::string& name, std::size_t max_bytes);

/// Its last whole lines, of at most `max_bytes`.
std::string last_lines_within(const std::filesystem::path& folder, const std::string& name,
                              std::size_t max_bytes);

/// As many runs as one page compares.
inline constexpr std::size_t kMaxRuns = 64;

/// The runs that an argument of a command names: an output folder of a run, or a folder whose folders are
/// such. None where there is no such folder (any more).
std::vector<std::filesystem::path> runs_at(const std::string& argument);

enum class NoRuns { kRefused, kAllowed };
/// The same for all arguments. Throws Error(kInvalidInput) for one that is no folder, or that holds no run
/// where that is refused, and for more than kMaxRuns.
std::vector<std::filesystem::path> find_runs(const std::vector<std::string>& arguments,
                                             NoRuns no_runs = NoRuns::kRefused);

/// The same for one run.
std::filesystem::path find_run(const std::string& argument);

/// Names of folders as a page shows them: the last part of the path, or all of it where two are alike.
std::vector<std::string> display_names(const std::vector<std::filesystem::path>& folders);

}  // namespace trireme
