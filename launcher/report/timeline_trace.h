// A timeline in Chrome's trace-event format, which Perfetto (ui.perfetto.dev) and chrome://tracing open.
#pragma once

#include <string>

#include "parallel/foresee/timeline.h"

namespace trireme {

/// A JSON document: a process a rank with the threads "compute" and "communication", and of a device that
/// runs behind its host "host (enqueues)"; a complete event a span, times in microseconds.
std::string to_chrome_trace(const Timeline& timeline);

}  // namespace trireme
