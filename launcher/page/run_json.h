// Everything that a page shows of a run, as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "launcher/page/metrics_line.h"
#include "launcher/page/run_reader.h"

namespace trireme {

/// {"name", "folder", "state", "config", "series": {"loss": {"x": [...], "y": [...]}}, "means": {...},
/// "timeline", "confusion"}. The last two are pictures. Series hold the extremes of curves. Means exist for
/// thinned curves and for curves that are stacked: [Note: thinned curves].
nlohmann::ordered_json run_json(const RunReader& reader, const std::string& name);

/// A new line in the form that a page appends: {"step": 5, "loss": 1.5, "memory.parameters": 1024}.
nlohmann::ordered_json row_json(const MetricsLine& line);

}  // namespace trireme
