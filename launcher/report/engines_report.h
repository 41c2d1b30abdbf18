// The output of `trireme doctor --engines`: what each call of a job's step takes on this machine's device.
#pragma once

#include <string>
#include <vector>

#include "parallel/foresee/call_times.h"
#include "parallel/foresee/roofline.h"

namespace trireme {

/// A line of JSON: {"call":"matmul","operands":...,"us":...,"roofline_us":{"H100":...}}.
std::string to_json(const CallTime& time);

/// A table, the calls that take most of a step first, and the notes below it.
std::string to_text(std::vector<CallTime> times);

}  // namespace trireme
