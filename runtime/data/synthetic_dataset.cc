#include "runtime/data/synthetic_dataset.h"

#include "runtime/base/error.h"

namespace trireme {

SyntheticDataset::SyntheticDataset(std::int64_t num_samples) : num_samples_(num_samples) {
  TRIREME_CHECK(num_samples > 0, "synthetic data needs at least one sample, not {}", num_samples);
}

HostBatch SyntheticDataset::read_train(std::int64_t first, std::int64_t count) const {
  TRIREME_CHECK(first >= 0 && count >= 0, "cannot read {} samples from sample {}", count, first);
  return make(first, count, Set::kTrain);
}

HostBatch SyntheticDataset::read_sequential(std::int64_t first, std::int64_t count) const {
  TRIREME_CHECK(first >= 0 && count >= 0 && first + count <= num_samples_,
                "samples {} to {} were requested, but there are only {}", first, first + count - 1,
                num_samples_);
  return make(first, count, Set::kEval);
}

}  // namespace trireme
