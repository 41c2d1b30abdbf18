// The embedding of a vision transformer: square patches of an image, a class token, positions.
#pragma once

#include "models/vit.h"
#include "runtime/block.h"

namespace trireme {

class PatchEmbedding final : public Block {
 public:
  explicit PatchEmbedding(const VitConfig& config);
  /// batch.inputs [B, S, S, 3] -> [B, T, C]: the class token if the config pools by it, then the patches, row
  /// by row.
  Activations forward(Context& ctx, const Activations& input, const Batch& batch) const override;

 private:
  std::int64_t patch_;
  float dropout_;
  ParamRef class_token_, weight_, bias_, positions_;
};

}  // namespace trireme
