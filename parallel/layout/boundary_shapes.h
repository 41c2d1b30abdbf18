// Shapes of the activations at stage boundaries, so that receive buffers exist before messages arrive.
//
// They come from a forward of the blocks on the meta device, which computes nothing.
//
// [Note: shapes of a play] A unit's output may have another dtype in evaluation than in training, because
// dropout with its own dtype runs in training only. So both sides of a boundary name their pass. Recompute is
// part of training and gives the same output as the forward. Plans hold no tensors, so the validator cannot
// check shapes. Instead, both sides of a message query this class with the same arguments, so they cannot
// differ. Before a rank sends, it checks that the block's output has this shape, in runs and in predictions.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "parallel/layout/sample_spec.h"
#include "runtime/block.h"

namespace trireme {

struct TensorSpec {
  Shape shape;
  DType dtype = DType::kFloat32;
  bool operator==(const TensorSpec&) const = default;
  /// "bf16 [2, 16, 32]".
  std::string to_string() const;
};

class BoundaryShapes {
 public:
  struct Play {
    std::int64_t num_samples = 1;
    bool training = true;
    auto operator<=>(const Play&) const = default;
  };

  /// Every batch has the shapes of `sample`. `sequence_ranks`: tensor ranks that share the sequence.
  BoundaryShapes(const BlockList& blocks, const Precision& precision, const SampleSpec& sample,
                 int sequence_ranks = 1);

  /// The output of `unit`, which is not the last.
  const std::vector<TensorSpec>& of(int unit, const Play& play);

 private:
  std::vector<std::vector<TensorSpec>> run(const Play& play) const;

  const BlockList& blocks_;
  const Precision precision_;
  const SampleSpec sample_;
  const int sequence_ranks_;
  std::map<Play, std::vector<std::vector<TensorSpec>>> known_;  // by unit
};

}  // namespace trireme
