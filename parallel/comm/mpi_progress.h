// A thread that moves data while the rank computes.
//
// Open MPI moves data only inside its calls. While operations are in flight, this thread makes an otherwise
// empty call every kPollInterval; without operations in flight it sleeps. It never touches a request; only
// the rank does. It costs a few per cent of a core, and helps if the rank computes for long after posting.
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

  /// Data moves while at least one Turning exists and is not stopped.
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
