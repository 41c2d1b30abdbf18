// The terminal's view of a run: a few lines of figures and a table of its ranks.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace trireme {

/// Of run_state's JSON; `now_s` is Unix time. Lines end with a newline. What the run does not say is left
/// out, and of many ranks the slowest are shown. Control characters of names are replaced.
std::string top_text(const std::string& name, const nlohmann::ordered_json& state, std::int64_t now_s);

}  // namespace trireme
