// The output folders of runs, and the files in them that a page may show.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

/// Returns `folder`/`name` if the file exists inside the folder, else null. Links that lead out of the folder
/// are not followed, because users who cannot read their targets may open the page.
std::optional<std::filesystem::path> file_within(const std::filesystem::path& folder,
                                                 const std::string& name);

/// The file's text; empty if the file is missing or longer than `max_bytes`.
std::string text_within(const std::filesystem::path& folder, const std::string& name, std::size_t max_bytes);

/// The file's last whole lines, at most `max_bytes`.
std::string last_lines_within(const std::filesystem::path& folder, const std::string& name,
                              std::size_t max_bytes);

/// A run's file with the pictures that `trireme sample` made last: a page embeds it.
inline constexpr const char* kGridPicture = "grid.png";

/// Maximum number of runs that one page compares.
inline constexpr std::size_t kMaxRuns = 64;

/// The runs that a command's argument names: the output folder of a run, or a folder that contains such
/// folders. Empty if the folder does not exist.
std::vector<std::filesystem::path> runs_at(const std::string& argument);

enum class NoRuns { kRefused, kAllowed };
/// The runs of all arguments: named runs first, then the runs inside of folders. Of these, at most as many
/// are taken as make kMaxRuns, with a warning. Throws Error(kInvalidInput) for an argument that is not a
/// folder, for a folder without runs where `no_runs` is kRefused, and for more than kMaxRuns named runs.
std::vector<std::filesystem::path> find_runs(const std::vector<std::string>& arguments,
                                             NoRuns no_runs = NoRuns::kRefused);

/// The output folder of one run. Throws Error(kInvalidInput) if `argument` is not one.
std::filesystem::path find_run(const std::string& argument);

/// Names of the folders for the page: the last part of each path, or the whole path if two names are equal.
std::vector<std::string> display_names(const std::vector<std::filesystem::path>& folders);

}  // namespace trireme
