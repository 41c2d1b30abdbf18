// Caches keys and values of earlier tokens, or the state of recurrent layers, so that the next token needs
// only one row per layer.
//
// [Note: decoding] With Context::cache set, a forward receives only the tokens after the cached ones.
// Embedding and rope count positions from length(). Attention reads the cached keys and values and appends
// the new ones. A recurrent layer starts from the cached state and replaces it. The order of calls within a
// forward identifies the layer. Logits may differ in their last bits from a forward over all tokens, because
// sums run in another order.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/tensor.h"

namespace trireme {

struct Context;

class KeyValueCache {
 public:
  struct Layer {
    Tensor keys, values;  // [B, num_kv_heads, capacity, head_dim]
  };
  struct State {
    Tensor h, c;  // [B, H], of an LSTM layer after the cached tokens; undefined: zeros
  };

  /// Holds `batch` sequences of at most `capacity` tokens. Recurrent states have no capacity.
  KeyValueCache(std::int64_t batch, std::int64_t capacity) : batch_(batch), capacity_(capacity) {}

  /// Cached tokens of each sequence.
  std::int64_t length() const { return length_; }
  std::int64_t capacity() const { return capacity_; }

  /// The cache of the next attention layer in order, allocated on first use. Throws Error(kInvalidInput) if
  /// `batch` sequences with `num_tokens` more tokens do not fit.
  const Layer& next_layer(const Context& ctx, std::int64_t batch, std::int64_t num_tokens,
                          std::int64_t num_kv_heads, std::int64_t head_dim, DType dtype);
  /// The state of the next recurrent layer in order, which the layer replaces.
  State& next_state();
  /// Call after a forward over `num_tokens` tokens per sequence.
  void finish_forward(std::int64_t num_tokens);
  /// Removes all tokens.
  void clear();

 private:
  std::int64_t batch_, capacity_;
  std::int64_t length_ = 0;
  std::size_t next_ = 0, next_state_ = 0;
  std::vector<Layer> layers_;
  std::vector<State> states_;
};

}  // namespace trireme
