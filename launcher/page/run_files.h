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

/// The runs that the arguments of a command name: each an output folder of a run, or a folder whose folders
/// are such. Throws Error(kInvalidInput) for one that is neither.
std::vector<std::filesystem::path> find_runs(const std::vector<std::string>& arguments);

/// The same for one run.
std::filesystem::path find_run(const std::string& argument);

/// Names of folders as a page shows them: the last part of the path, or all of it where two are alike.
std::vector<std::string> display_names(const std::vector<std::filesystem::path>& folders);

}  // namespace trireme
