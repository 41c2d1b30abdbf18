// Reads host batches ahead on a thread of its own, so that a step does not wait for the disk.
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

/// One consumer. What the reader throws reaches the consumer at the batch where it happened.
class Prefetcher {
 public:
  /// Yields the next request, or nullopt after the last; called on the reading thread only.
  using RequestSource = std::function<std::optional<BatchRequest>()>;

  /// Starts reading. At most `depth` (>= 1) finished batches wait at a time.
  Prefetcher(std::shared_ptr<const Dataset> dataset, RequestSource requests, std::size_t depth);
  Prefetcher(std::shared_ptr<const Dataset> dataset, std::vector<BatchRequest> requests, std::size_t depth);
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;
  /// Stops after the batch being read, if any.
  ~Prefetcher();

  /// The batches in order of the requests; nullopt after the last. Waits for the reader. Rethrows its
  /// exception, again at every further call.
  std::optional<HostBatch> next();

  /// Milliseconds that next() has waited since the last call of this function: metrics' data_wait_ms.
  double take_wait_ms();

 private:
  void run(const RequestSource& requests);

  std::shared_ptr<const Dataset> dataset_;
  const std::size_t depth_;
  double wait_ms_ = 0.0;  // the consumer's own

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<HostBatch> ready_;
  bool finished_ = false;  // the reader will add no more
  bool stop_ = false;      // the consumer wants no more
  std::exception_ptr error_;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace trireme
