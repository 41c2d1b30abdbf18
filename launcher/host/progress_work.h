// Work of a rank that the other ranks follow by its progress: on a thread while training continues, or at
// once.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <thread>
#include <utility>

namespace trireme {

/// `Progress`: an enum with kNone and kFailed. One piece of work at a time.
template <class Progress>
class ProgressWork {
 public:
  ProgressWork() = default;
  ~ProgressWork() { join(); }
  ProgressWork(const ProgressWork&) = delete;
  ProgressWork& operator=(const ProgressWork&) = delete;

  Progress progress() const { return progress_; }
  void set(Progress progress) { progress_ = progress; }
  /// Sets the thread of later work: the caller's if `at_once`, else a new one.
  void run_at_once(bool at_once) { at_once_ = at_once; }
  /// Long work returns early once this is true.
  const std::atomic<bool>& is_cancelled() const { return cancelled_; }
  void cancel() { cancelled_ = true; }

  /// Runs `work` with the progress `during`. When it ends, the progress is `then`, or kFailed if it threw.
  void run(Progress during, Progress then, const std::function<void()>& work) {
    join();
    progress_ = during;
    const auto body = [this, then, work] {
      try {
        work();
        if (!cancelled_) progress_ = then;
      } catch (...) {
        fail(std::current_exception());
      }
    };
    if (at_once_) return body();
    thread_ = std::thread(body);
  }
  void fail(std::exception_ptr error) {
    error_ = std::move(error);
    progress_ = Progress::kFailed;
  }
  /// Waits for the thread.
  void join() {
    if (thread_.joinable()) thread_.join();
  }
  /// Waits for the thread. Throws what the work threw.
  void rethrow() {
    join();
    if (error_) std::rethrow_exception(error_);
  }
  /// Cancels the work, and waits for the thread. Then no work is known.
  void reset() noexcept {
    cancelled_ = true;
    join();
    cancelled_ = false;
    error_ = nullptr;
    progress_ = Progress::kNone;
  }

 private:
  bool at_once_ = false;
  std::atomic<Progress> progress_ = Progress::kNone;
  std::atomic<bool> cancelled_ = false;
  std::exception_ptr error_;  // of the thread; read after it has ended
  std::thread thread_;
};

}  // namespace trireme
