// An evenly spaced subset of a data set, for evaluations that do not read all samples.
#pragma once

#include <memory>

#include "runtime/data/dataset.h"

namespace trireme {

/// Sample i is sample floor(i * n / count) of the n samples of another set in file order. If files are sorted
/// by class, every class has its share. For evaluation only.
class SpreadSamples final : public Dataset {
 public:
  /// Throws Error(kInvalidInput) unless 0 < count <= data->num_samples().
  SpreadSamples(std::shared_ptr<const Dataset> data, std::int64_t count);

  std::int64_t num_samples() const override { return count_; }
  std::int64_t targets_per_sample() const override { return data_->targets_per_sample(); }
  std::int64_t num_sequential_targets(std::int64_t first, std::int64_t count) const override;
  /// Throws Error(kUnsupported): training uses every sample.
  HostBatch read_train(std::int64_t first, std::int64_t count) const override;
  HostBatch read_sequential(std::int64_t first, std::int64_t count) const override;
  std::int64_t samples_per_read() const override { return data_->samples_per_read(); }
  std::vector<std::string> left_out() const override { return data_->left_out(); }

 private:
  /// Index in the other set.
  std::int64_t index_of(std::int64_t sample) const;

  const std::shared_ptr<const Dataset> data_;
  const std::int64_t count_;
};

}  // namespace trireme
