#include "runtime/data/spread_samples.h"

#include <utility>

#include "runtime/base/error.h"
#include "runtime/data/batch_parts.h"

namespace trireme {

SpreadSamples::SpreadSamples(std::shared_ptr<const Dataset> data, std::int64_t count)
    : data_(std::move(data)), count_(count) {
  TRIREME_CHECK(count > 0 && count <= data_->num_samples(), "cannot take {} of {} samples", count,
                data_->num_samples());
}

// sample * n / count without the product, which could overflow.
std::int64_t SpreadSamples::index_of(std::int64_t sample) const {
  const std::int64_t step = data_->num_samples() / count_, rest = data_->num_samples() % count_;
  return sample * step + sample * rest / count_;
}

std::int64_t SpreadSamples::num_sequential_targets(std::int64_t first, std::int64_t count) const {
  std::int64_t num_targets = 0;
  for (std::int64_t i = first; i < first + count; ++i) {
    num_targets += data_->num_sequential_targets(index_of(i), 1);
  }
  return num_targets;
}

HostBatch SpreadSamples::read_train(std::int64_t, std::int64_t) const {
  throw Error(ErrorCode::kUnsupported, "a part of a data set is for evaluation only");
}

HostBatch SpreadSamples::read_sequential(std::int64_t first, std::int64_t count) const {
  TRIREME_CHECK(first >= 0 && count >= 0 && first + count <= count_,
                "samples {} to {} were requested, but there are only {}", first, first + count - 1, count_);
  if (count == 0) return data_->read_sequential(0, 0);
  std::vector<HostBatch> parts;
  for (std::int64_t i = first; i < first + count; ++i) {
    parts.push_back(data_->read_sequential(index_of(i), 1));
  }
  return join_batches(std::move(parts));
}

}  // namespace trireme
