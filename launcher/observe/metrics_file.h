// The file of log.prometheus.
//
// A relative path is below the output folder, so a job file from somebody else cannot make a run overwrite
// files outside it. An absolute path is the user's choice: the folder of node-exporter's textfile collector
// is never below an output folder.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace trireme {

/// Throws Error(kInvalidInput) naming the key if the name does not end in ".prom", which the collector
/// requires, or if a relative path contains ".." that lead out of the output folder.
void check_metrics_path(const std::string& path);

/// The full path; its folder must exist. `out`: the output folder, which exists. Throws Error(kInvalidInput)
/// naming the key, also if a relative path leads out of `out` through a link.
std::filesystem::path metrics_file(const std::string& path, const std::filesystem::path& out);

/// Replaces the file atomically. Does not sync it, because newer values follow within a second. Throws Error.
void write_metrics_file(const std::filesystem::path& path, std::string_view text);

}  // namespace trireme
