#include "tests/kernels/cuda/emulation/stream_thread.h"

#include <utility>

namespace emulation {

StreamThread::StreamThread() : thread_([this] { run(); }) {}

StreamThread::~StreamThread() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void StreamThread::add(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
  }
  changed_.notify_all();
}

void StreamThread::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return queue_.empty() && !busy_; });
}

void StreamThread::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !queue_.empty() || ending_; });
    if (queue_.empty()) return;
    std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    lock.unlock();
    work();
    work = nullptr;  // frees captured objects
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

void StreamMark::set() {
  {
    const std::lock_guard lock(mutex_);
    set_ = true;
  }
  changed_.notify_all();
}

void StreamMark::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return set_; });
}

bool StreamMark::is_set() {
  const std::lock_guard lock(mutex_);
  return set_;
}

}  // namespace emulation
