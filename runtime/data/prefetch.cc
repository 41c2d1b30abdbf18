#include "runtime/data/prefetch.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/data/batch_parts.h"

namespace trireme {
namespace {

Prefetcher::RequestSource from_list(std::vector<BatchRequest> requests) {
  return [requests = std::move(requests), next = std::size_t{0}]() mutable -> std::optional<BatchRequest> {
    if (next == requests.size()) return std::nullopt;
    return requests[next++];
  };
}

HostBatch read(const Dataset& dataset, const BatchRequest& request) {
  return request.order == BatchRequest::Order::kTrain ? dataset.read_train(request.first, request.count)
                                                      : dataset.read_sequential(request.first, request.count);
}

}  // namespace

struct Prefetcher::Pending {
  std::vector<BatchRequest> parts;
  std::vector<HostBatch> read;  // by part
  std::size_t num_claimed = 0, num_done = 0;
  HostBatch batch;           // all parts joined
  bool is_ready = false;     // `batch` or `error` is set
  std::exception_ptr error;  // from any part
};

struct Prefetcher::Part {
  std::shared_ptr<Pending> of;
  std::size_t index = 0;
};

Prefetcher::Prefetcher(std::shared_ptr<const Dataset> dataset, RequestSource requests,
                       const PrefetchOptions& options)
    : dataset_(std::move(dataset)), requests_(std::move(requests)), options_(options) {
  TRIREME_CHECK(options.depth >= 1, "a prefetcher needs room for at least one batch");
  TRIREME_CHECK(options.workers >= 0, "a prefetcher cannot have {} workers", options.workers);
  for (int i = 0; i < options.workers; ++i) workers_.emplace_back([this] { work(); });
}

Prefetcher::Prefetcher(std::shared_ptr<const Dataset> dataset, std::vector<BatchRequest> requests,
                       const PrefetchOptions& options)
    : Prefetcher(std::move(dataset), from_list(std::move(requests)), options) {}

Prefetcher::~Prefetcher() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

// All functions below until take() hold the mutex on entry and on return, except work() and finish().

bool Prefetcher::has_work() const {
  if (!exhausted_ && pending_.size() < options_.depth) return true;
  return std::ranges::any_of(pending_, [](const auto& p) { return p->num_claimed < p->parts.size(); });
}

void Prefetcher::add_request() {
  auto pending = std::make_shared<Pending>();
  try {
    const std::optional<BatchRequest> request = requests_();
    if (!request) {
      exhausted_ = true;
      return;
    }
    pending->parts = split_request(*request, dataset_->samples_per_read());
    pending->read.resize(pending->parts.size());
  } catch (...) {
    pending->error = std::current_exception();
    pending->is_ready = true;
    exhausted_ = true;
  }
  pending_.push_back(std::move(pending));
}

// The next unclaimed part, from the earliest batch with one; none if the requests have ended or failed.
Prefetcher::Part Prefetcher::claim() {
  const auto open = [](const auto& p) { return p->num_claimed < p->parts.size(); };
  auto found = std::ranges::find_if(pending_, open);
  if (found == pending_.end()) {
    add_request();
    found = std::ranges::find_if(pending_, open);
    if (found == pending_.end()) return {};
  }
  return {*found, (*found)->num_claimed++};
}

void Prefetcher::work() {
  for (;;) {
    Part part;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stop_ || has_work(); });
      if (stop_) return;
      part = claim();
    }
    changed_.notify_all();
    if (!part.of) continue;
    HostBatch batch;
    std::exception_ptr error;
    try {
      batch = read(*dataset_, part.of->parts[part.index]);
    } catch (...) {
      error = std::current_exception();
    }
    finish(part, std::move(batch), error);
  }
}

// Stores a part. The worker of the last part joins the batch, without holding the lock.
void Prefetcher::finish(const Part& part, HostBatch batch, const std::exception_ptr& error) {
  Pending& pending = *part.of;
  bool is_last = false;
  {
    const std::lock_guard lock(mutex_);
    pending.read[part.index] = std::move(batch);
    if (error) {
      pending.error = error;
      exhausted_ = true;
    }
    is_last = ++pending.num_done == pending.parts.size();
  }
  if (!is_last) return;
  HostBatch whole;
  std::exception_ptr join_error;
  try {
    if (!pending.error) whole = join_batches(std::move(pending.read));
  } catch (...) {
    join_error = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex_);
    if (join_error) pending.error = join_error;
    pending.batch = std::move(whole);
    pending.is_ready = true;
  }
  changed_.notify_all();
}

std::optional<HostBatch> Prefetcher::take() {
  std::shared_ptr<Pending> first;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return pending_.empty() ? exhausted_ : pending_.front()->is_ready; });
    if (pending_.empty()) return std::nullopt;
    first = std::move(pending_.front());
    pending_.pop_front();
  }
  changed_.notify_all();
  if (first->error) std::rethrow_exception(first->error);
  return std::move(first->batch);
}

std::optional<HostBatch> Prefetcher::read_next() {
  const std::optional<BatchRequest> request = requests_();
  if (!request) return std::nullopt;
  return read(*dataset_, *request);
}

std::optional<HostBatch> Prefetcher::next() {
  if (error_) std::rethrow_exception(error_);
  const auto start = std::chrono::steady_clock::now();
  std::optional<HostBatch> batch;
  try {
    batch = options_.workers == 0 ? read_next() : take();
  } catch (...) {
    error_ = std::current_exception();
    throw;
  }
  wait_ms_ += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return batch;
}

double Prefetcher::take_wait_ms() {
  return std::exchange(wait_ms_, 0.0);
}

}  // namespace trireme
