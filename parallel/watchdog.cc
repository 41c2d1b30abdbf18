#include "parallel/watchdog.h"

#include <fmt/core.h>

namespace trireme {

Watchdog::Watchdog(Options options) : options_(std::move(options)), thread_([this] { run(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

Watchdog::Scope::Scope(Watchdog* watchdog, Describe describe) : watchdog_(watchdog) {
  if (watchdog_ == nullptr) return;
  const std::lock_guard lock(watchdog_->mutex_);
  watchdog_->describe_ = std::move(describe);
  watchdog_->since_ = Clock::now();
  watchdog_->waits_for_ = -1;
}

Watchdog::Scope::~Scope() {
  if (watchdog_ == nullptr) return;
  const std::lock_guard lock(watchdog_->mutex_);
  watchdog_->describe_ = nullptr;
}

void Watchdog::wait_for(int rank) {
  const std::lock_guard lock(mutex_);
  waits_for_ = rank;
}

std::string Watchdog::late_message() const {
  return fmt::format("{} for more than {} s{}", describe_(), options_.timeout_s,
                     waits_for_ >= 0 ? fmt::format(", waiting for rank {}", waits_for_) : "");
}

// Looks a few times in a timeout: nobody has to wake it for every action.
void Watchdog::run() {
  const auto seconds = [](double s) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(s));
  };
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, seconds(options_.timeout_s / 8), [this] { return end_; })) {
    if (!describe_ || Clock::now() - since_ < seconds(options_.timeout_s)) continue;
    const std::string message = late_message();
    options_.report(message);
    if (changed_.wait_for(lock, seconds(options_.grace_s), [this] { return end_; })) return;
    // Whatever has moved meanwhile: the others have reported, and somebody ends the job.
    lock.unlock();
    options_.end_job(message);
    return;
  }
}

}  // namespace trireme
