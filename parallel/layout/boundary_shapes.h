// Shapes of the activations at stage boundaries, known before they arrive: a receive has its buffers ready.
//
// Found by running the blocks forward on the meta device, where nothing is computed.
//
// [Note: shapes of a play] A unit's output may have another dtype in evaluation than in training: dropout
// with a dtype of its own runs in training alone. So both sides of a boundary name the pass that they are
// in. Recompute is part of training, and gives what the forward gave. The validator knows none of this, as
// plans hold no tensors: both sides of a message ask here, with the same arguments, so they cannot differ.
// That a block really gives what was found here its rank checks before it sends, in runs and in predictions.
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

  /// Every batch has the shapes of `sample`. `sequence_ranks`: of the tensor axis, that share the sequence.
  BoundaryShapes(const BlockList& blocks, const Precision& precision, const SampleSpec& sample,
                 int sequence_ranks = 1);

  /// The output of `unit`, any but the last.
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
