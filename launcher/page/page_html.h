// The page itself: page.html with its style, its scripts, and, in a report, the data of its runs.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace trireme {

/// A page that asks the server that it comes from for its data.
std::string live_page();

/// One file that needs no other, with the runs of `data` (report_data). Nothing in it can end its script or
/// add tags.
std::string report_page(const nlohmann::ordered_json& data);

/// {"runs": [...], "made": Unix time}, each run as run_json has it.
nlohmann::ordered_json report_data(const std::vector<std::filesystem::path>& folders);

}  // namespace trireme
