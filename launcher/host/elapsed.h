// Elapsed time.
#pragma once

#include <chrono>

namespace trireme {

/// Seconds since `start`.
inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Milliseconds since `start`.
inline double ms_since(std::chrono::steady_clock::time_point start) {
  return 1e3 * seconds_since(start);
}

}  // namespace trireme
