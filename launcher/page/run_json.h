// All that a page shows of a run, as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "launcher/page/metrics_line.h"
#include "launcher/page/run_reader.h"

namespace trireme {

/// {"name", "folder", "state", "config", "series": {"loss": {"x": [...], "y": [...]}}, "means": {...},
/// "timeline"}. Series are the extremes of curves, means are there of those that are thinned, and of those
/// that are drawn on each other: [Note: thinned curves].
nlohmann::ordered_json run_json(const RunReader& reader, const std::string& name);

/// A new line, as a page adds it: {"step": 5, "loss": 1.5, "memory.parameters": 1024}.
nlohmann::ordered_json row_json(const MetricsLine& line);

/// As text. Bytes that are no UTF-8 are replaced: names of folders may hold any.
std::string dump_json(const nlohmann::ordered_json& json);

}  // namespace trireme
