// Progress messages of long work, on stderr.
#pragma once

#include <functional>
#include <string>

namespace trireme {

/// Called often with the current activity. An empty function disables progress.
using TellProgress = std::function<void(const std::string& what)>;

/// Prints one line every ten seconds; shorter work prints nothing. Copies share the timer.
TellProgress progress_lines();

/// Called often with the current activity and the part that is done, in [0, 1].
using TellShare = std::function<void(const std::string& what, double done)>;

/// "what: 37 %, about 40 s left". The rest takes as long per part as the `elapsed_s` seconds before it.
std::string share_text(const std::string& what, double done, double elapsed_s);

/// progress_lines() with share_text(), for work that starts now.
TellShare share_lines();

}  // namespace trireme
