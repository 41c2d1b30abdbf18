// Time that has passed.
#pragma once

#include <chrono>

namespace trireme {

/// Milliseconds from `start` on.
inline double ms_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace trireme
