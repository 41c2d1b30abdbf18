// A profiler that reads NVTX ranges.
#pragma once

#include <string>
#include <vector>

namespace emulation {

/// Attaches the profiler. Call before the first range, because attachment is queried only once.
void attach_profiler();
/// The ranges of this thread in the order in which they began. Each is preceded by its enclosing ranges:
/// "step 1 / Forward embedding mb 0".
std::vector<std::string>& profiled_ranges();

}  // namespace emulation
