#include "launcher/report/progress_lines.h"

#include <fmt/core.h>

#include <chrono>
#include <cstdio>
#include <memory>

#include "launcher/host/elapsed.h"
#include "runtime/base/terminal_text.h"

namespace trireme {

TellProgress progress_lines() {
  using Clock = std::chrono::steady_clock;
  return [last = std::make_shared<Clock::time_point>(Clock::now())](const std::string& what) {
    if (Clock::now() - *last < std::chrono::seconds(10)) return;
    *last = Clock::now();
    fmt::print(stderr, "{}\n", terminal_line(what));
  };
}

std::string share_text(const std::string& what, double done, double elapsed_s) {
  std::string text = fmt::format("{}: {:.0f} %", what, 100 * done);
  if (done <= 0 || done >= 1) return text;
  const double left_s = elapsed_s * (1 - done) / done;
  return text + (left_s < 90 ? fmt::format(", about {:.0f} s left", left_s)
                             : fmt::format(", about {:.0f} min left", left_s / 60));
}

TellShare share_lines() {
  return [start = std::chrono::steady_clock::now(), print = progress_lines()](
             const std::string& what, double done) { print(share_text(what, done, seconds_since(start))); };
}

}  // namespace trireme
