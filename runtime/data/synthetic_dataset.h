// Base of datasets that are generated from a seed: a number of samples, and two sets of draws.
#pragma once

#include <cstdint>

#include "runtime/data/dataset.h"

namespace trireme {

/// Samples are functions of a seed, a set and an index. Training samples never repeat.
class SyntheticDataset : public Dataset {
 public:
  std::int64_t num_samples() const final { return num_samples_; }
  std::int64_t targets_per_sample() const override { return 1; }
  HostBatch read_train(std::int64_t first, std::int64_t count) const final;
  HostBatch read_sequential(std::int64_t first, std::int64_t count) const final;

 protected:
  enum class Set { kTrain, kEval };

  /// `num_samples` per pass. Throws Error(kInvalidInput) unless it is positive.
  explicit SyntheticDataset(std::int64_t num_samples);

 private:
  virtual HostBatch make(std::int64_t first, std::int64_t count, Set set) const = 0;

  std::int64_t num_samples_;
};

}  // namespace trireme
