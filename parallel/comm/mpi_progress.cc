#include "parallel/comm/mpi_progress.h"

#include <mpi.h>

#include <chrono>
#include <utility>

#include "runtime/base/error.h"

namespace trireme {
namespace {

// Shared memory moves about 100 KiB in this time. Shorter intervals cost the computing core more than they
// gain.
constexpr auto kPollInterval = std::chrono::microseconds(50);

}  // namespace

MpiProgress::MpiProgress() {
  int provided = MPI_THREAD_SINGLE;
  MPI_Query_thread(&provided);
  if (provided < MPI_THREAD_MULTIPLE) {
    throw Error(ErrorCode::kUnsupported,
                "this MPI library takes calls from one thread at a time (ompi_info shows its thread "
                "support): it cannot move data while a rank computes");
  }
  thread_ = std::thread([this] { run(); });
}

MpiProgress::~MpiProgress() {
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

MpiProgress::Turning& MpiProgress::Turning::operator=(Turning&& other) noexcept {
  stop();
  progress_ = std::exchange(other.progress_, nullptr);
  return *this;
}

void MpiProgress::Turning::stop() noexcept {
  MpiProgress* const progress = std::exchange(progress_, nullptr);
  if (progress == nullptr) return;
  const std::lock_guard lock(progress->mutex_);
  --progress->num_turning_;
}

MpiProgress::Turning MpiProgress::turn() {
  const std::lock_guard lock(mutex_);
  if (num_turning_++ == 0) wake_.notify_one();
  return Turning(*this);
}

void MpiProgress::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return end_ || num_turning_ > 0; });
    if (end_) return;
    lock.unlock();
    int found = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &found, MPI_STATUS_IGNORE);
    std::this_thread::sleep_for(kPollInterval);
    lock.lock();
  }
}

}  // namespace trireme
