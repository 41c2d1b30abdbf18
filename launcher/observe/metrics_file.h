// The file that log.prometheus names.
//
// A relative path lies in the output folder: a job file that somebody else wrote cannot make a run overwrite
// what is outside of it. An absolute path is the user's own decision: the folder of node-exporter's textfile
// collector is never below an output folder.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace trireme {

/// Throws Error(kInvalidInput) naming the key where the name does not end in ".prom", which the collector
/// looks for, or a relative path leads out of the output folder by its words alone.
void check_metrics_path(const std::string& path);

/// The file, in a folder that exists; `out` is the output folder, which exists. Throws Error(kInvalidInput)
/// naming the key, also where a relative path leads out of `out` through a link.
std::filesystem::path metrics_file(const std::string& path, const std::filesystem::path& out);

/// Replaces the file: a reader sees the old text or the new one. Not synced, as the next second brings newer
/// numbers. Throws Error.
void write_metrics_file(const std::filesystem::path& path, std::string_view text);

}  // namespace trireme
