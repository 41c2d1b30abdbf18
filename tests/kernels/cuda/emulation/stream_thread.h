// Streams that run concurrently with the host, in a thread each, for work that waits for other ranks. All
// other streams of the emulation run their work immediately.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace emulation {

/// Runs its work in order. The destructor waits for all of it.
class StreamThread {
 public:
  StreamThread();
  ~StreamThread();
  StreamThread(const StreamThread&) = delete;
  StreamThread& operator=(const StreamThread&) = delete;

  void add(std::function<void()> work);
  /// Blocks until all added work is done.
  void drain();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool busy_ = false, ending_ = false;
  std::thread thread_;
};

/// The position in a stream at which an event was recorded.
class StreamMark {
 public:
  void set();
  void wait();
  bool is_set();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool set_ = false;
};

}  // namespace emulation
