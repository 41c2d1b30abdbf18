// Warnings about problems that no library supports and slower code runs. Each is logged once per stream.
#pragma once

#include <fmt/format.h>

#include <set>
#include <string>

#include "runtime/base/log.h"

namespace trireme::cuda {

class SlowPaths {
 public:
  /// `problem` is unsupported by every library. `successor` describes the code that runs in its place.
  void tell(const std::string& problem, const char* successor) {
    if (told_.insert(problem).second) {
      log_warning(fmt::format("cuda: no library takes {}; {}", problem, successor));
    }
  }

 private:
  std::set<std::string> told_;
};

}  // namespace trireme::cuda
