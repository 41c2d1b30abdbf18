#include "runtime/key_value_cache.h"

#include "runtime/base/error.h"
#include "runtime/context.h"

namespace trireme {

const KeyValueCache::Layer& KeyValueCache::next_layer(const Context& ctx, std::int64_t batch,
                                                      std::int64_t num_tokens, std::int64_t num_kv_heads,
                                                      std::int64_t head_dim, DType dtype) {
  TRIREME_CHECK(batch == batch_ && length_ + num_tokens <= capacity_,
                "a key-value cache of {} sequences of {} tokens holds {}; {} sequences of {} more do not fit",
                batch_, capacity_, length_, batch, num_tokens);
  if (next_ == layers_.size()) {
    const Shape shape{batch_, num_kv_heads, capacity_, head_dim};
    layers_.push_back({.keys = ctx.empty(shape, dtype), .values = ctx.empty(shape, dtype)});
  }
  const Layer& layer = layers_[next_++];
  TRIREME_CHECK(
      layer.keys.shape().dim(1) == num_kv_heads && layer.keys.shape().dim(3) == head_dim &&
          layer.keys.dtype() == dtype,
      "a key-value cache serves one model: attention {} has {} heads of {} in {}, the cache {} in {}",
      next_ - 1, num_kv_heads, head_dim, name(dtype), layer.keys.shape().to_string(),
      name(layer.keys.dtype()));
  return layer;
}

KeyValueCache::State& KeyValueCache::next_state() {
  if (next_state_ == states_.size()) states_.emplace_back();
  return states_[next_state_++];
}

void KeyValueCache::finish_forward(std::int64_t num_tokens) {
  length_ += num_tokens;
  next_ = next_state_ = 0;
}

void KeyValueCache::clear() {
  length_ = 0;
  next_ = next_state_ = 0;
  states_.clear();
}

}  // namespace trireme
