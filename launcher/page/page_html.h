// The page: page.html with its style and scripts; a report also embeds the data of its runs.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace trireme {

/// A page that fetches its data from the server that served it.
std::string live_page();

/// One self-contained file with the runs of `data` (report_data). The data cannot close its script or add
/// tags.
std::string report_page(const nlohmann::ordered_json& data);

/// {"runs": [...], "made": Unix time}. Each run is the result of run_json().
nlohmann::ordered_json report_data(const std::vector<std::filesystem::path>& folders);

}  // namespace trireme
