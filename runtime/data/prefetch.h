// Reads host batches ahead on background threads, so that a step does not wait for disks and decoders.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "runtime/data/dataset.h"

namespace trireme {

struct BatchRequest {
  enum class Order : std::uint8_t {
    kTrain,       // Dataset::read_train
    kSequential,  // Dataset::read_sequential
  };
  std::int64_t first = 0;
  std::int64_t count = 0;
  Order order = Order::kTrain;
};

struct PrefetchOptions {
  std::size_t depth = 1;  // maximum number of batches being read or ready; >= 1
  int workers = 1;        // reading threads. 0: next() reads, nothing is read ahead
};

/// Single consumer. Batches arrive in the order of the requests, whichever worker reads them. A worker's
/// exception reaches the consumer at the failing batch. Workers share a batch, in parts of
/// Dataset::samples_per_read(), so that few batches ahead are enough.
class Prefetcher {
 public:
  /// Returns the next request, or nullopt after the last; called by one thread at a time.
  using RequestSource = std::function<std::optional<BatchRequest>()>;

  /// Starts reading.
  Prefetcher(std::shared_ptr<const Dataset> dataset, RequestSource requests, const PrefetchOptions& options);
  Prefetcher(std::shared_ptr<const Dataset> dataset, std::vector<BatchRequest> requests,
             const PrefetchOptions& options);
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;
  /// Stops after the parts being read, if any.
  ~Prefetcher();

  /// The next batch, in order of the requests; nullopt after the last. Waits for the workers. Rethrows their
  /// exceptions, again on every later call.
  std::optional<HostBatch> next();

  /// Milliseconds that next() has waited since the last call of this function: data_wait_ms in the metrics.
  double take_wait_ms();

 private:
  struct Pending;  // a batch that was requested and not yet taken
  struct Part;     // the unit of reading

  void work();
  bool has_work() const;
  Part claim();
  void add_request();
  void finish(const Part& part, HostBatch batch, const std::exception_ptr& error);
  std::optional<HostBatch> take();
  std::optional<HostBatch> read_next();

  const std::shared_ptr<const Dataset> dataset_;
  const RequestSource requests_;
  const PrefetchOptions options_;
  double wait_ms_ = 0.0;      // of the consumer
  std::exception_ptr error_;  // the exception that next() has thrown

  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Pending>> pending_;  // in order of the requests
  bool exhausted_ = false;                        // no further requests
  bool stop_ = false;                             // set by the destructor

  std::vector<std::thread> workers_;  // last: they use all members above
};

}  // namespace trireme
