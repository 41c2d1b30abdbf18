// Progress messages of long forecasts, on stderr.
#pragma once

#include <functional>
#include <string>

namespace trireme {

/// Called often with the current activity. An empty function disables progress.
using TellProgress = std::function<void(const std::string& what)>;

/// Prints one line every ten seconds; shorter work prints nothing. Copies share the timer.
TellProgress progress_lines();

}  // namespace trireme
