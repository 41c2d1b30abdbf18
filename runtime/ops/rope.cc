#include "runtime/ops/rope.h"

#include <cmath>

#include "runtime/base/error.h"
#include "runtime/key_value_cache.h"
#include "runtime/ops/cast.h"
#include "runtime/tape.h"

namespace trireme::ops {
namespace {

constexpr double kTwoPi = 6.283185307179586;

/// The frequencies of all pairs before a scaling.
struct Pairs {
  std::int64_t head_dim;
  double theta;

  double frequency(int pair) const { return std::pow(theta, -2.0 * pair / static_cast<double>(head_dim)); }
  /// The index, not rounded, of the pair that turns `turns` times in `context` positions.
  double index(double turns, std::int64_t context) const {
    return static_cast<double>(head_dim) * std::log(static_cast<double>(context) / (turns * kTwoPi)) /
           (2.0 * std::log(theta));
  }
};

/// The share of its speed that a pair keeps: 0 at the low bound, 1 at the high bound.
double kept_share(const Pairs& pairs, int pair, const RopeScaling& scaling) {
  if (scaling.kind == RopeScaling::Kind::kLinear) return 0.0;
  if (scaling.kind == RopeScaling::Kind::kLlama3) {
    const double turns = static_cast<double>(scaling.original_context) * pairs.frequency(pair) / kTwoPi;
    return (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
  }
  const auto last = static_cast<double>(pairs.head_dim - 1);
  const double low =
      std::max(0.0, std::floor(pairs.index(scaling.high_freq_factor, scaling.original_context)));
  double high = std::min(last, std::ceil(pairs.index(scaling.low_freq_factor, scaling.original_context)));
  if (low == high) high += 0.001;  // as in the authors' program
  return 1.0 - (pair - low) / (high - low);
}

double scaled(const Pairs& pairs, int pair, const RopeScaling& scaling) {
  const double frequency = pairs.frequency(pair);
  if (scaling.factor == 1.0) return frequency;
  const double kept = std::min(1.0, std::max(0.0, kept_share(pairs, pair, scaling)));
  return (1.0 - kept) * frequency / scaling.factor + kept * frequency;
}

struct RopeBackward {
  ValueId x = kNoValue;
  RopeOptions options;

  std::string name() const { return "rope"; }
  std::vector<Tensor> saved() const { return {}; }

  void backward(Context& ctx, Gradients& gradients, ValueId y) {
    const Tensor dout = gradients.take(y);
    Tensor dqkv = dout.unique() ? dout : ctx.empty(dout.shape(), dout.dtype());
    ctx.run(RopeBwdArgs{.dout = dout,
                        .dqkv = dqkv,
                        .num_heads = options.num_heads,
                        .num_kv_heads = options.num_kv_heads,
                        .rope = options.rope});
    gradients.add(ctx, x, std::move(dqkv));
  }
};

}  // namespace

RopeFrequencies rope_frequencies(std::int64_t head_dim, double theta, const RopeScaling& scaling) {
  TRIREME_CHECK(head_dim >= 2 && head_dim % 2 == 0 && head_dim <= 2 * RopeFrequencies::kMaxPairs,
                "rope: head_dim {} must be even and at most {}", head_dim, 2 * RopeFrequencies::kMaxPairs);
  TRIREME_CHECK(theta > 0 && scaling.factor >= 1 && scaling.original_context > 0 &&
                    scaling.high_freq_factor > scaling.low_freq_factor,
                "rope: theta {} must be positive, the factor {} at least 1, and high_freq_factor {} above "
                "low_freq_factor {}",
                theta, scaling.factor, scaling.high_freq_factor, scaling.low_freq_factor);
  RopeFrequencies rope{.num_pairs = static_cast<int>(head_dim / 2)};
  for (int i = 0; i < rope.num_pairs; ++i) {
    rope.frequencies[i] = scaled({.head_dim = head_dim, .theta = theta}, i, scaling);
  }
  return rope;
}

double rope_attention_factor(const RopeScaling& scaling) {
  if (scaling.attention_factor > 0) return scaling.attention_factor;
  return scaling.kind == RopeScaling::Kind::kYarn ? 0.1 * std::log(scaling.factor) + 1.0 : 1.0;
}

Tensor rope(Context& ctx, Tensor input, const RopeOptions& options) {
  const std::int64_t heads = options.num_heads, kv_heads = options.num_kv_heads;
  const std::int64_t head_dim = 2 * std::int64_t{options.rope.num_pairs};
  TRIREME_CHECK(heads >= 1 && kv_heads >= 1 && heads % kv_heads == 0,
                "rope: {} heads of k and v do not divide {} heads of queries", kv_heads, heads);
  TRIREME_CHECK(
      input.shape().rank() == 3 && input.shape().dim(2) == (heads + 2 * kv_heads) * head_dim,
      "rope: input {} is not [B, T, (num_heads + 2 num_kv_heads) head_dim] with {} and {} heads of {}",
      input.shape().to_string(), heads, kv_heads, head_dim);
  const Tensor x = cast(ctx, input, ctx.precision.dtype_of(OpKind::kRope, input.dtype()));
  input = Tensor();
  const Tensor y = x.unique() ? x : ctx.empty(x.shape(), x.dtype());
  ctx.run(RopeFwdArgs{.qkv = x,
                      .out = y,
                      .num_heads = options.num_heads,
                      .num_kv_heads = options.num_kv_heads,
                      .rope = options.rope,
                      .first_position = ctx.cache != nullptr ? ctx.cache->length() : 0});
  return recorded(ctx, y, RopeBackward{.x = x.id(), .options = options});
}

}  // namespace trireme::ops
