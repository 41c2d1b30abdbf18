// Keys and values of the tokens that a causal model has seen, so that the next token costs one row a layer.
//
// [Note: decoding] With Context::cache set, a forward is given the tokens after the cached ones alone:
// embedding and rope count positions from length(), attention reads the cached keys and values and adds its
// own. Layers are told apart by the order in which they run. Logits differ in last bits from those of a
// forward over all tokens, because sums are made in another order.
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

  /// Of `batch` sequences of at most `capacity` tokens.
  KeyValueCache(std::int64_t batch, std::int64_t capacity) : batch_(batch), capacity_(capacity) {}

  /// Tokens of each sequence whose keys and values are held.
  std::int64_t length() const { return length_; }
  std::int64_t capacity() const { return capacity_; }

  /// Of the attention that runs next; allocated when it runs first. Throws Error(kInvalidInput) where `batch`
  /// sequences of `num_tokens` more do not fit.
  const Layer& next_layer(const Context& ctx, std::int64_t batch, std::int64_t num_tokens,
                          std::int64_t num_kv_heads, std::int64_t head_dim, DType dtype);
  /// After a forward over `num_tokens` tokens a sequence.
  void finish_forward(std::int64_t num_tokens);
  /// Forgets all tokens.
  void clear();

 private:
  std::int64_t batch_, capacity_;
  std::int64_t length_ = 0;
  std::size_t next_ = 0;
  std::vector<Layer> layers_;
};

}  // namespace trireme
