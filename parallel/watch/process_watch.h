// Detects the end of processes on this machine at once, without their help.
#pragma once

#include <optional>
#include <vector>

namespace trireme {

class ProcessWatch {
 public:
  explicit ProcessWatch(const std::vector<int>& processes = {});
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;
  ~ProcessWatch();

  /// Adds a process. Skips processes that cannot be watched: ended ones, and all before Linux 5.3. Call from
  /// the waiting thread.
  void add(int process);
  /// The number of watched processes: not yet reported.
  std::size_t num_watched() const { return watched_.size(); }

  /// Waits until a process ends, wake() is called or `seconds` have passed; negative: no limit. Returns the
  /// index of the ended process in the order of addition; each is reported once.
  std::optional<std::size_t> wait(double seconds);
  /// Ends the current wait, or else the next one. From any thread.
  void wake() noexcept;

 private:
  struct Watched {
    std::size_t slot;
    int handle;
  };
  std::vector<Watched> watched_;
  std::size_t num_added_ = 0;
  int wake_ = -1;
};

/// True for a process stopped by a signal (SIGSTOP, a debugger).
bool is_stopped(int process);

}  // namespace trireme
