// A layout as JSON, with the keys of the job file.
#pragma once

#include <nlohmann/json.hpp>

#include "parallel/layout/layout.h"

namespace trireme {

/// {"pipeline": 1, "tensor": 2, ...} with every field. An empty cut is "flops".
nlohmann::ordered_json layout_json(const Layout& layout);

}  // namespace trireme
