// Cuts the global batch into micro-batches and assigns them to data ranks.
#pragma once

#include <algorithm>
#include <cstdint>

namespace trireme {

/// The global micro-batches that a data rank computes (see [Note: canonical reduction]).
enum class Assignment : std::uint8_t {
  kContiguous,  // rank r: a run of neighbours; gradients are reduced once a step
  kStrided,     // rank r: r, r + N, r + 2 N ...; gradients are reduced after every round of N
};

/// The cut of the global batch into micro-batches, and who computes which.
///
/// Global micro-batch g holds samples [g * micro_batch, (g + 1) * micro_batch) of the step.
struct BatchLayout {
  std::int64_t global_batch = 1;
  std::int64_t micro_batch = 1;
  int data_ranks = 1;
  Assignment assignment = Assignment::kContiguous;

  /// For training both divide exactly (check()); evaluation may end in a smaller micro-batch and in idle
  /// places.
  std::int64_t num_micro_batches() const { return (global_batch + micro_batch - 1) / micro_batch; }
  std::int64_t per_rank() const { return (num_micro_batches() + data_ranks - 1) / data_ranks; }
  /// The global index of a rank's local micro-batch.
  std::int64_t global_micro_batch(int data_rank, std::int64_t local) const {
    return assignment == Assignment::kContiguous ? data_rank * per_rank() + local
                                                 : local * data_ranks + data_rank;
  }
  std::int64_t first_sample(std::int64_t global_micro_batch) const {
    return global_micro_batch * micro_batch;
  }
  /// The samples of a rank's local micro-batch.
  struct Samples {
    std::int64_t first = 0, count = 0;
  };
  Samples samples_of(int data_rank, std::int64_t local) const {
    const std::int64_t first = first_sample(global_micro_batch(data_rank, local));
    return {first, std::min(micro_batch, global_batch - first)};
  }

  /// Throws Error(kInvalidInput), with numbers that would work, unless global_batch is a multiple of
  /// micro_batch * data_ranks.
  void check() const;
};

}  // namespace trireme
