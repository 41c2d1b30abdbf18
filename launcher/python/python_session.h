// The class trireme._core.Session.
#pragma once

#include <nanobind/nanobind.h>

#include "launcher/python/python_functions.h"

namespace trireme {

void bind_session(nanobind::module_& module);

}  // namespace trireme
