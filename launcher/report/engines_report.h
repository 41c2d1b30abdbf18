// The output of `trireme doctor --engines`: the time of each call in a job's step on this machine's device.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "parallel/foresee/call_times.h"
#include "parallel/foresee/roofline.h"

namespace trireme {

/// {"call":"matmul","operands":...,"us":...,"roofline_us":{"H100":...}}.
nlohmann::ordered_json to_json(const CallTime& time);

/// A table, sorted by the share of a step, with notes below.
std::string to_text(std::vector<CallTime> times);

}  // namespace trireme
