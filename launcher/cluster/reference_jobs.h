// Jobs of small models whose calls `trireme doctor --measure` times.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/device.h"

namespace trireme {

/// Job files with one layer or few, of each family in the precisions that are measured for it. Their sizes
/// are typical of jobs for the device.
std::vector<std::string> reference_jobs(DeviceType type);

}  // namespace trireme
