// Streams that run beside the host: a thread each, for what waits for other ranks. All other streams of the
// emulation do their work at once.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace emulation {

/// Does what it is given, in order. Ends when all of it is done.
class StreamThread {
 public:
  StreamThread();
  ~StreamThread();
  StreamThread(const StreamThread&) = delete;
  StreamThread& operator=(const StreamThread&) = delete;

  void add(std::function<void()> work);
  /// Blocks until all that was added is done.
  void drain();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool busy_ = false, ending_ = false;
  std::thread thread_;
};

/// The point of a stream at which an event was recorded.
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
