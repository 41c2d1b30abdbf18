// What a forecast that takes long is at, on stderr.
#pragma once

#include <functional>
#include <string>

namespace trireme {

/// Called often, with what is being done; empty: nobody wants to know.
using TellProgress = std::function<void(const std::string& what)>;

/// Prints a line every ten seconds: what ends sooner says nothing. Copies count the seconds together.
TellProgress progress_lines();

}  // namespace trireme
