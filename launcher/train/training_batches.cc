#include "launcher/train/training_batches.h"

#include <algorithm>

#include "runtime/base/error.h"

namespace trireme {
namespace {

// Deep enough to cover a slow read, small enough for memory. kMaxBytes applies beyond two batches.
constexpr std::int64_t kMaxDepth = 8, kMaxBytes = std::int64_t{256} << 20;

std::size_t depth_of(const TrainingBatches::Options& options) {
  const std::int64_t batch_bytes =
      std::max<std::int64_t>(1, options.batch.micro_batch * options.sample_bytes);
  const std::int64_t most = std::clamp<std::int64_t>(kMaxBytes / batch_bytes, 2, kMaxDepth);
  return static_cast<std::size_t>(std::clamp<std::int64_t>(2 * options.batch.per_rank(), 2, most));
}

Prefetcher::RequestSource requests(const TrainingBatches::Options& options) {
  const BatchLayout batch = options.batch;
  return [batch, data_rank = options.data_rank, steps_left = options.num_steps - options.first_step,
          first_sample = options.first_sample,
          done = std::int64_t{0}]() mutable -> std::optional<BatchRequest> {
    if (steps_left <= 0) return std::nullopt;
    const std::int64_t first = first_sample + batch.first_sample(batch.global_micro_batch(data_rank, done));
    if (++done == batch.count_of(data_rank)) {
      done = 0;
      first_sample += batch.global_batch;
      --steps_left;
    }
    return BatchRequest{.first = first, .count = batch.micro_batch};
  };
}

}  // namespace

TrainingBatches::TrainingBatches(const Options& options)
    : prefetcher_(options.dataset, requests(options),
                  {.depth = depth_of(options), .workers = options.workers}) {}

BatchSource TrainingBatches::source() {
  return [this](std::int64_t, std::int64_t count) {
    auto batch = prefetcher_.next();
    TRIREME_CHECK(batch && batch->input_shape.dim(0) == count,
                  "the engine requested {} samples, the data of the run has {}", count,
                  batch ? batch->input_shape.dim(0) : 0);
    return std::move(*batch);
  };
}

}  // namespace trireme
