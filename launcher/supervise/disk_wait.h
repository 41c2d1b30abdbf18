// Waits for the disk of an output folder that is full or fails.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace trireme {

class DiskWait {
 public:
  struct Options {
    std::chrono::milliseconds limit;                       // on the pauses of one outage
    std::function<bool(std::chrono::milliseconds)> pause;  // false: cut short, by a signal
    std::function<void(const std::string&)> log;           // gets a line at the begin and end of an outage
  };

  explicit DiskWait(Options options) : options_(std::move(options)) {}

  /// Calls `write` again, after pauses of 1 s, doubled each time up to a minute, while it throws
  /// Error(kRuntime). Returns false if a pause was cut short. Throws that error once the limit is used up,
  /// and others at once. The next call continues an outage that exceeded its limit.
  bool until_written(const std::function<void()>& write);

 private:
  Options options_;
  std::chrono::milliseconds waited_{0};  // in this outage
};

/// The pause after `waited` in one outage.
std::chrono::milliseconds next_pause(std::chrono::milliseconds waited);

}  // namespace trireme
