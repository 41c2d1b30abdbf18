#include "launcher/report/progress_lines.h"

#include <fmt/core.h>

#include <chrono>
#include <cstdio>
#include <memory>

namespace trireme {

TellProgress progress_lines() {
  using Clock = std::chrono::steady_clock;
  return [last = std::make_shared<Clock::time_point>(Clock::now())](const std::string& what) {
    if (Clock::now() - *last < std::chrono::seconds(10)) return;
    *last = Clock::now();
    fmt::print(stderr, "{}\n", what);
  };
}

}  // namespace trireme
