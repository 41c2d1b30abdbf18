// Waits while the disk of an output folder is full or fails.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace trireme {

class DiskWait {
 public:
  struct Options {
    std::chrono::milliseconds limit;                       // total length of the pauses in one outage
    std::function<bool(std::chrono::milliseconds)> pause;  // false: interrupted by a signal
    std::function<void(const std::string&)> log;           // called at the begin and end of an outage
  };

  explicit DiskWait(Options options) : options_(std::move(options)) {}

  /// Retries `write` while it throws Error(kRuntime), with pauses of 1 s, doubled each time up to one minute.
  /// Returns false if a pause was interrupted. Rethrows that error once the limit is used up, and other
  /// errors at once. A call after the limit continues the same outage.
  bool until_written(const std::function<void()>& write);

 private:
  Options options_;
  std::chrono::milliseconds waited_{0};  // in this outage
};

/// The next pause, after pauses of `waited` in one outage.
std::chrono::milliseconds next_pause(std::chrono::milliseconds waited);

}  // namespace trireme
