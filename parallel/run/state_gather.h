// Gathers the state of all ranks on rank 0, one stretch at a time.
//
// [Note: gathering state] The owner of a stretch broadcasts it along each axis on which its coordinate
// differs from rank 0's: data, then pipeline, then tensor. All ranks of the axis receive it although only the
// first needs it, because other pairs of ranks have no channels except for a step's messages. A stretch is at
// most as long as the staging buffer of the rank with the least free memory ([Note: staging]). Rejected:
// gathering whole groups, whose fp32 elements can need more memory than a step.
#pragma once

#include <cstdint>

#include "parallel/run/saved_tensors.h"

namespace trireme {

class StateGather {
 public:
  /// Largest stretch in elements: long enough that the disk determines the time, not the number of messages.
  static constexpr std::int64_t kMaxElems = std::int64_t{1} << 20;

  /// Agrees with all ranks on the length of stretches. Collective over all ranks. `engine` outlives this.
  explicit StateGather(const Engine& engine);

  /// Elements of a part of a tensor, counted from the part's first.
  struct Range {
    std::int64_t first = 0, last = 0;
    std::int64_t count() const { return last - first; }
  };
  /// Copies a range of a part to `out` on rank 0, in host memory; `out` is ignored on the others. Collective
  /// over all ranks.
  void read(const CheckpointTensor& tensor, const SavedPart& part, Range range, float* out) const;

 private:
  /// The location of a stretch: `owned` on the rank at coordinate `owner`.
  struct Stretch {
    Coord owner;
    Tensor owned;  // undefined elsewhere
    std::int64_t num_elems = 0;
  };
  Stretch stretch_of_statistic(const CheckpointTensor& tensor, Range range) const;
  Stretch stretch_of_group(const CheckpointTensor& tensor, const SavedPart& part, Range range) const;
  /// Returns the stretch on rank 0, and an unspecified tensor elsewhere.
  Tensor bring(const Stretch& stretch) const;

  const Engine& engine_;
  const std::int64_t max_elems_;
};

}  // namespace trireme
