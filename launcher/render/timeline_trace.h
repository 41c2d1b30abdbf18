// A timeline in Chrome's trace-event format, for Perfetto (ui.perfetto.dev) and chrome://tracing.
#pragma once

#include <string>

#include "parallel/plan/timeline.h"

namespace trireme {

/// A JSON document. Each rank is a process with the threads "compute" and "communication", and for an
/// asynchronous device "host (enqueues)". Each span is a complete event; times are in microseconds.
std::string to_chrome_trace(const Timeline& timeline);

}  // namespace trireme
