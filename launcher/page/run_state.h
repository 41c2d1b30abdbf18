// What a page shows of a run beside its curves: how far it is, its events, ranks and configuration. As JSON,
// which pages and the terminal view read.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "launcher/page/run_reader.h"
#include "runtime/base/file_identity.h"

namespace trireme {

/// {"status", "step", "steps", "written", "events", "ranks", "last", "summary"}; what a run does not say is
/// absent. Status is "waiting" (no line yet), "running", or that of summary.json. Files that are damaged
/// count as absent. Of a supervisor's history the newest 64 KiB count.
nlohmann::ordered_json run_state(const RunReader& reader);

/// The files that run_state() depends on. While they are the same, so is the state.
using RunFiles = std::vector<std::optional<FileIdentity>>;
RunFiles run_files(const std::filesystem::path& folder);

/// Keys of config.toml with their values as they stand there: {"train.steps": "100"}.
nlohmann::ordered_json run_config(const std::filesystem::path& folder);

}  // namespace trireme
