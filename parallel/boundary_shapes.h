// What units hand to each other, known before it arrives: a receive has its buffers ready.
//
// Found by running the blocks forward on the meta device, where nothing is computed.
#pragma once

#include <map>
#include <vector>

#include "parallel/sample_spec.h"
#include "runtime/block.h"

namespace trireme {

struct TensorSpec {
  Shape shape;
  DType dtype = DType::kFloat32;
  bool operator==(const TensorSpec&) const = default;
};

class BoundaryShapes {
 public:
  /// Every batch has the shapes of `sample`.
  BoundaryShapes(const BlockList& blocks, const Precision& precision, const SampleSpec& sample);

  /// The output of `unit`, any but the last, for `num_samples` samples.
  const std::vector<TensorSpec>& of(int unit, std::int64_t num_samples);

 private:
  std::vector<std::vector<TensorSpec>> run(std::int64_t num_samples) const;

  const BlockList& blocks_;
  const Precision precision_;
  const SampleSpec sample_;
  std::map<std::int64_t, std::vector<std::vector<TensorSpec>>> known_;  // by number of samples, then by unit
};

}  // namespace trireme
