// Everything that a page shows of a run, as JSON.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "launcher/page/metrics_line.h"
#include "launcher/page/run_reader.h"
#include "launcher/page/run_state.h"

namespace trireme {

/// {"name", "folder", "state", "config", "series": {"loss": {"x": [...], "y": [...]}}, "means": {...},
/// "timeline", "confusion", "grid"}. The last three are pictures of at most 2 MiB. Series hold the extremes
/// of curves. Means exist for thinned curves and for curves that are stacked: [Note: thinned curves].
nlohmann::ordered_json run_json(const RunReader& reader, const std::string& name);

/// The files of run_json()'s pictures: while they are unchanged, so are the pictures.
RunFiles picture_files(const std::filesystem::path& folder);

/// A new line in the form that a page appends: {"step": 5, "loss": 1.5, "memory.parameters": 1024}.
nlohmann::ordered_json row_json(const MetricsLine& line);

}  // namespace trireme
