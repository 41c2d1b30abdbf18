// A thread that moves data while the rank computes.
//
// Open MPI moves data inside of its calls only. While operations are in flight, this thread makes a call that
// does nothing else, every kPollInterval; when none is, it sleeps. It touches no request: those stay the
// rank's own. It costs a few per cent of a core, and wins where the rank computes for long after posting.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

namespace trireme {

class MpiProgress {
 public:
  /// Throws Error(kUnsupported) unless MPI was started with MPI_THREAD_MULTIPLE.
  MpiProgress();
  MpiProgress(const MpiProgress&) = delete;
  MpiProgress& operator=(const MpiProgress&) = delete;
  /// Ends the thread. No Turning may be left.
  ~MpiProgress();

  /// While one is alive and not stopped, data moves.
  class Turning {
   public:
    Turning() = default;
    explicit Turning(MpiProgress& progress) : progress_(&progress) {}
    Turning(const Turning&) = delete;
    Turning& operator=(Turning&& other) noexcept;
    ~Turning() { stop(); }
    void stop() noexcept;

   private:
    MpiProgress* progress_ = nullptr;
  };
  Turning turn();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable wake_;
  int num_turning_ = 0;
  bool end_ = false;
  std::thread thread_;
};

}  // namespace trireme
