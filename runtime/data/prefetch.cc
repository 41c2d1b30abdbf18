#include "runtime/data/prefetch.h"

#include <chrono>
#include <utility>

#include "runtime/base/error.h"

namespace trireme {
namespace {

Prefetcher::RequestSource from_list(std::vector<BatchRequest> requests) {
  return [requests = std::move(requests), next = std::size_t{0}]() mutable -> std::optional<BatchRequest> {
    if (next == requests.size()) return std::nullopt;
    return requests[next++];
  };
}

}  // namespace

Prefetcher::Prefetcher(std::shared_ptr<const Dataset> dataset, RequestSource requests, std::size_t depth)
    : dataset_(std::move(dataset)), depth_(depth) {
  TRIREME_CHECK(depth_ >= 1, "a prefetcher needs room for at least one batch");
  thread_ = std::thread([this, requests = std::move(requests)] { run(requests); });
}

Prefetcher::Prefetcher(std::shared_ptr<const Dataset> dataset, std::vector<BatchRequest> requests,
                       std::size_t depth)
    : Prefetcher(std::move(dataset), from_list(std::move(requests)), depth) {}

Prefetcher::~Prefetcher() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Prefetcher::run(const RequestSource& requests) {
  std::exception_ptr error;
  try {
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return stop_ || ready_.size() < depth_; });
        if (stop_) return;
      }
      const std::optional<BatchRequest> request = requests();
      if (!request) break;
      HostBatch batch = request->order == BatchRequest::Order::kTrain
                            ? dataset_->read_train(request->first, request->count)
                            : dataset_->read_sequential(request->first, request->count);
      {
        const std::lock_guard lock(mutex_);
        ready_.push_back(std::move(batch));
      }
      changed_.notify_all();
    }
  } catch (...) {
    error = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex_);
    error_ = error;
    finished_ = true;
  }
  changed_.notify_all();
}

std::optional<HostBatch> Prefetcher::next() {
  const auto start = std::chrono::steady_clock::now();
  std::optional<HostBatch> batch;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return finished_ || !ready_.empty(); });
    if (!ready_.empty()) {
      batch = std::move(ready_.front());
      ready_.pop_front();
    } else if (error_) {
      std::rethrow_exception(error_);
    }
  }
  changed_.notify_all();
  wait_ms_ += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return batch;
}

double Prefetcher::take_wait_ms() {
  return std::exchange(wait_ms_, 0.0);
}

}  // namespace trireme
