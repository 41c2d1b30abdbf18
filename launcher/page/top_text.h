// The terminal's view of a run: a few lines of figures and a table of its ranks.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace trireme {

/// `state` is the JSON of run_state(); `now_s` is Unix time. Each line ends with a newline. Missing values
/// are left out; of many ranks only the slowest are shown. Control characters in names are replaced.
std::string top_text(const std::string& name, const nlohmann::ordered_json& state, std::int64_t now_s);

}  // namespace trireme
