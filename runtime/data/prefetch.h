// Reads host batches ahead on threads of its own, so that a step does not wait for disks and decoders.
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
  std::size_t depth = 1;  // batches that are being read or wait to be taken, at most; >= 1
  int workers = 1;        // threads that read. 0: nothing is read ahead, next() reads
};

/// One consumer. Batches come in the order of the requests, whoever reads them; what a worker throws reaches
/// the consumer at the batch where it happened. Workers share a batch, in parts of
/// Dataset::samples_per_read(), so that few batches ahead are enough.
class Prefetcher {
 public:
  /// Yields the next request, or nullopt after the last; called by one thread at a time.
  using RequestSource = std::function<std::optional<BatchRequest>()>;

  /// Starts reading.
  Prefetcher(std::shared_ptr<const Dataset> dataset, RequestSource requests, const PrefetchOptions& options);
  Prefetcher(std::shared_ptr<const Dataset> dataset, std::vector<BatchRequest> requests,
             const PrefetchOptions& options);
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;
  /// Stops after the parts being read, if any.
  ~Prefetcher();

  /// The batches in order of the requests; nullopt after the last. Waits for the workers. Rethrows what they
  /// threw, again at every further call.
  std::optional<HostBatch> next();

  /// Milliseconds that next() has waited since the last call of this function: metrics' data_wait_ms.
  double take_wait_ms();

 private:
  struct Pending;  // a batch that was requested and not taken
  struct Part;     // what a worker reads at once

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
  double wait_ms_ = 0.0;      // the consumer's own
  std::exception_ptr error_;  // likewise: what next() has thrown

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Pending>> pending_;  // in order of the requests
  bool exhausted_ = false;                        // there is no further request
  bool stop_ = false;                             // the consumer wants no more

  std::vector<std::thread> workers_;  // last: they use all of the above
};

}  // namespace trireme
