// Sees processes of this machine end, at once and without asking them.
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

  /// One more. What cannot be watched is left out: a process that is gone already, all of them before Linux
  /// 5.3. By the thread that waits.
  void add(int process);
  /// The number of processes that are watched: they have not been reported.
  std::size_t num_watched() const { return watched_.size(); }

  /// Waits until a process ends, wake() is called or `seconds` are over; below 0: without limit. The slot of
  /// the process in the list; each is reported once.
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

/// True for a process that a signal has stopped (SIGSTOP, a debugger).
bool is_stopped(int process);

}  // namespace trireme
