// Cuts the global batch into micro-batches and assigns them to data ranks.
#pragma once

#include <algorithm>
#include <cstdint>

namespace trireme {

/// The global micro-batches that a data rank computes (see [Note: canonical reduction]).
enum class Assignment : std::uint8_t {
  kContiguous,  // rank r: consecutive micro-batches; gradients are reduced once per step
  kStrided,     // rank r: r, r + N, r + 2 N ...; gradients are reduced after every round of N
};

/// The division of the global batch into micro-batches, and their assignment to data ranks.
///
/// Global micro-batch g holds samples [g * micro_batch, (g + 1) * micro_batch) of the step.
///
/// [Note: uneven layouts] If the number of micro-batches is not a multiple of the data ranks, the first ranks
/// have one more, and the others are idle meanwhile. This requires contiguous runs: the sum over a run of any
/// length is a few subtrees of the same tree, so every layout has the same bits. A strided assignment would
/// leave gaps in its last round, and is refused.
struct BatchLayout {
  std::int64_t global_batch = 1;
  std::int64_t micro_batch = 1;
  int data_ranks = 1;
  Assignment assignment = Assignment::kContiguous;

  /// Training has whole micro-batches only (check()); the last one of an evaluation may be smaller.
  std::int64_t num_micro_batches() const { return (global_batch + micro_batch - 1) / micro_batch; }
  /// Micro-batches of the ranks with the most.
  std::int64_t per_rank() const { return (num_micro_batches() + data_ranks - 1) / data_ranks; }
  bool is_even() const { return num_micro_batches() % data_ranks == 0; }
  /// The number of a rank's micro-batches; for kContiguous also the global index of the first.
  std::int64_t count_of(int data_rank) const {
    const std::int64_t more = num_micro_batches() % data_ranks;
    return num_micro_batches() / data_ranks + (data_rank < more ? 1 : 0);
  }
  std::int64_t first_of(int data_rank) const {
    const std::int64_t more = num_micro_batches() % data_ranks;
    return data_rank * (num_micro_batches() / data_ranks) + std::min<std::int64_t>(data_rank, more);
  }
  /// The global index of a rank's local micro-batch; num_micro_batches() or more where it has none.
  std::int64_t global_micro_batch(int data_rank, std::int64_t local) const {
    if (assignment == Assignment::kStrided) return local * data_ranks + data_rank;
    return local < count_of(data_rank) ? first_of(data_rank) + local : num_micro_batches();
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
  /// micro_batch and gives every data rank at least one micro-batch; kStrided requires equal numbers.
  void check() const;
};

}  // namespace trireme
