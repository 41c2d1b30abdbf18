// CCT's tokenizer: 3 x 3 convolutions with ReLU, each followed by a max pool that halves the image; then
// positions.
#pragma once

#include <vector>

#include "models/cct.h"
#include "runtime/block.h"

namespace trireme {

class ConvTokenizer final : public Block {
 public:
  explicit ConvTokenizer(const CctConfig& config);
  /// batch.inputs [B, S, S, 3] -> [B, side^2, C], row by row.
  Activations forward(Context& ctx, const Activations& input, const Batch& batch) const override;

 private:
  float dropout_;
  std::vector<ParamRef> weights_;  // of the convolutions, which have no bias
  ParamRef positions_;
};

}  // namespace trireme
