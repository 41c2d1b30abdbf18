// A profiler that reads NVTX ranges.
#pragma once

#include <string>
#include <vector>

namespace emulation {

/// From now on there is one. Before the first range: who has asked whether there is one asks no more.
void attach_profiler();
/// The ranges of this thread in the order in which they began, each behind those that were open around it:
/// "step 1 / Forward embedding mb 0".
std::vector<std::string>& profiled_ranges();

}  // namespace emulation
