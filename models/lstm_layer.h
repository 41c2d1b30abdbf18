// One LSTM layer over the tokens of a sample, and dropout of its output.
#pragma once

#include <cstdint>

#include "runtime/block.h"
#include "runtime/ops/lstm.h"

namespace trireme {

struct LstmLayerConfig {
  std::int64_t index = 0;  // from 0: the layer's number in PyTorch's names
  std::int64_t inputs = 1, hidden = 1;
  float dropout = 0.0f;  // on the output, not on the recurrence
};

class LstmLayer final : public Block {
 public:
  explicit LstmLayer(const LstmLayerConfig& config);
  /// [B, T, inputs] -> [B, T, hidden]. The state of each sample starts at zero. In decoding it continues from
  /// the cache: see [Note: decoding] in runtime/key_value_cache.h.
  Activations forward(Context& ctx, const Activations& input, const Batch& batch) const override;

 private:
  float dropout_;
  ops::LstmParameters parameters_;
};

}  // namespace trireme
