// The state of a run that a page shows beside its curves: progress, events, ranks and configuration. JSON,
// read by pages and by the terminal view.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "launcher/page/run_reader.h"
#include "runtime/base/file_identity.h"

namespace trireme {

/// {"status", "step", "steps", "written", "events", "ranks", "last", "summary"}; values that the run has not
/// written are absent. The status is "waiting" (no line yet), "running", or the status in summary.json.
/// Damaged files count as absent. Only the newest 64 KiB of a supervisor's history are read.
nlohmann::ordered_json run_state(const RunReader& reader);

/// The files that run_state() depends on: while they are unchanged, so is the state.
using RunFiles = std::vector<std::optional<FileIdentity>>;
RunFiles run_files(const std::filesystem::path& folder);

/// Keys of config.toml with their values as text: {"train.steps": "100"}.
nlohmann::ordered_json run_config(const std::filesystem::path& folder);

}  // namespace trireme
