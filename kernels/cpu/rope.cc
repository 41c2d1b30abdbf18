// Rotary positions: a piece is a token, all of its heads.
#include <algorithm>
#include <cassert>
#include <cmath>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/ops.h"

namespace trireme::cpu {
namespace {

/// The turns of all positions: [T, D / 2] cosines, then as many sines. Computed in double and rounded once:
/// angles grow to the length of the context.
class Turns {
 public:
  Turns(const KernelContext& exec, const RopeFrequencies& rope, std::int64_t seq_len,
        std::int64_t first_position = 0)
      : pairs_(rope.num_pairs),
        sines_(seq_len * pairs_),
        table_(exec, std::max<std::int64_t>(1, 2 * sines_)) {
    for_each_piece(exec, seq_len, 64 * sines_, [&](std::int64_t t) {
      for (std::int64_t i = 0; i < pairs_; ++i) {
        const double angle = static_cast<double>(first_position + t) * rope.frequencies[i];
        table_.data()[t * pairs_ + i] = static_cast<float>(std::cos(angle));
        table_.data()[sines_ + t * pairs_ + i] = static_cast<float>(std::sin(angle));
      }
    });
  }
  const float* cosines(std::int64_t t) const { return table_.data() + t * pairs_; }
  const float* sines(std::int64_t t) const { return cosines(t) + sines_; }

 private:
  std::int64_t pairs_, sines_;
  Workspace table_;
};

/// Turns the pairs of a head by the angles, or with `direction` -1 back. `to` may be `from`.
void turn(const float* from, const float* cosines, const float* sines, float direction, std::int64_t pairs,
          float* to) {
#pragma omp simd
  for (std::int64_t i = 0; i < pairs; ++i) {
    const float x = from[i], y = from[i + pairs], c = cosines[i], s = direction * sines[i];
    to[i] = x * c - y * s;
    to[i + pairs] = y * c + x * s;
  }
}

struct Heads {
  std::int64_t q, kv, dim;
  std::int64_t packed() const { return (q + 2 * kv) * dim; }
  std::int64_t spread() const { return 3 * q * dim; }
};

Heads heads_of(int num_heads, int num_kv_heads, const RopeFrequencies& rope) {
  assert(num_heads % num_kv_heads == 0 && rope.num_pairs <= RopeFrequencies::kMaxPairs);
  return {num_heads, num_kv_heads, 2 * std::int64_t{rope.num_pairs}};
}

}  // namespace

void run_op(const KernelContext& exec, const RopeFwdArgs& args) {
  check_one_float_type("rope_fwd", {args.qkv, args.out});
  const Heads heads = heads_of(args.num_heads, args.num_kv_heads, args.rope);
  const std::int64_t seq_len = args.qkv.shape[1], tokens = args.qkv.shape[0] * seq_len;
  assert(args.qkv.num_elems() == tokens * heads.packed() && args.out.num_elems() == tokens * heads.spread());
  const Turns turns(exec, args.rope, seq_len, args.first_position);
  const bool converts = args.qkv.dtype != DType::kFloat32;
  const ThreadScratch scratch(exec, converts ? heads.packed() + heads.spread() : 0);
  for_each_piece(exec, tokens, tokens * heads.spread(), [&](std::int64_t token) {
    float* buffer = scratch.mine();
    const float* q = read(args.qkv, token * heads.packed(), heads.packed(), buffer);
    float* out = place(args.out, token * heads.spread(), converts ? buffer + heads.packed() : nullptr);
    const float *k = q + heads.q * heads.dim, *v = k + heads.kv * heads.dim;
    const float *c = turns.cosines(token % seq_len), *s = turns.sines(token % seq_len);
    for (std::int64_t h = 0; h < heads.q; ++h) {
      const std::int64_t from = h * heads.kv / heads.q * heads.dim, to = h * heads.dim;
      turn(q + to, c, s, 1.0f, heads.dim / 2, out + to);
      turn(k + from, c, s, 1.0f, heads.dim / 2, out + heads.q * heads.dim + to);
      std::copy_n(v + from, heads.dim, out + 2 * heads.q * heads.dim + to);
    }
    write(args.out, token * heads.spread(), heads.spread(), out);
  });
}

void run_op(const KernelContext& exec, const RopeBwdArgs& args) {
  check_one_float_type("rope_bwd", {args.dout, args.dqkv});
  const Heads heads = heads_of(args.num_heads, args.num_kv_heads, args.rope);
  const std::int64_t seq_len = args.dout.shape[1], tokens = args.dout.shape[0] * seq_len;
  assert(args.dqkv.num_elems() == tokens * heads.packed() &&
         args.dout.num_elems() == tokens * heads.spread());
  const Turns turns(exec, args.rope, seq_len);
  const bool converts = args.dout.dtype != DType::kFloat32;
  const ThreadScratch scratch(exec, converts ? heads.packed() + heads.spread() : 0);
  const std::int64_t copies = heads.q / heads.kv;
  for_each_piece(exec, tokens, tokens * heads.spread(), [&](std::int64_t token) {
    float* buffer = scratch.mine();
    const float* dq = read(args.dout, token * heads.spread(), heads.spread(), buffer);
    float* to = place(args.dqkv, token * heads.packed(), converts ? buffer + heads.spread() : nullptr);
    const float *c = turns.cosines(token % seq_len), *s = turns.sines(token % seq_len);
    // The sum over the copies of the head at `from`, turned back.
    const auto gather = [&](const float* from, float* sum, bool turned) {
      if (sum != from) std::copy_n(from, heads.dim, sum);
      for (std::int64_t i = 1; i < copies; ++i) {
        numerics().elementwise->add(sum, from + i * heads.dim, sum, heads.dim);
      }
      if (turned) turn(sum, c, s, -1.0f, heads.dim / 2, sum);
    };
    const float *dk = dq + heads.q * heads.dim, *dv = dk + heads.q * heads.dim;
    for (std::int64_t h = 0; h < heads.q; ++h) {
      turn(dq + h * heads.dim, c, s, -1.0f, heads.dim / 2, to + h * heads.dim);
    }
    for (std::int64_t h = 0; h < heads.kv; ++h) {
      gather(dk + h * copies * heads.dim, to + (heads.q + h) * heads.dim, true);
      gather(dv + h * copies * heads.dim, to + (heads.q + heads.kv + h) * heads.dim, false);
    }
    write(args.dqkv, token * heads.packed(), heads.packed(), to);
  });
}

}  // namespace trireme::cpu
