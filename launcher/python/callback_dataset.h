// A data set whose samples come from a function, in the order of training of the library's own data sets.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "parallel/layout/sample_spec.h"
#include "runtime/data/dataset.h"

namespace trireme {

class CallbackDataset final : public Dataset {
 public:
  struct Options {
    std::int64_t num_samples = 0;
    std::uint64_t seed = 0;
    SampleSpec sample;
    /// Reads the samples of these indices, in this order. Called from several threads at once.
    std::function<HostBatch(std::span<const std::int64_t> indices)> read;
  };
  /// Throws Error(kInvalidInput) if there are no samples.
  explicit CallbackDataset(Options options);

  std::int64_t num_samples() const override { return options_.num_samples; }
  std::int64_t targets_per_sample() const override;
  /// [Note: training order] in runtime/data/permutation.h.
  HostBatch read_train(std::int64_t first, std::int64_t count) const override;
  HostBatch read_sequential(std::int64_t first, std::int64_t count) const override;

 private:
  Options options_;
};

}  // namespace trireme
