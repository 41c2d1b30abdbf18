// What no library takes and slower code does instead, each said once a stream.
#pragma once

#include <fmt/format.h>

#include <set>
#include <string>

#include "runtime/base/log.h"

namespace trireme::cuda {

class SlowPaths {
 public:
  /// `problem` is what no library takes; `successor` says what runs.
  void tell(const std::string& problem, const char* successor) {
    if (told_.insert(problem).second) {
      log_warning(fmt::format("cuda: no library takes {}; {}", problem, successor));
    }
  }

 private:
  std::set<std::string> told_;
};

}  // namespace trireme::cuda
