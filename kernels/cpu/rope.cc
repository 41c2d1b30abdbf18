// Rotary positions. One piece is one token with all of its heads.
#include <algorithm>
#include <cassert>
#include <cmath>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/ops.h"

namespace trireme::cpu {
namespace {

/// The rotations of all positions: [T, D / 2] cosines, then [T, D / 2] sines. Computed in double and rounded
/// once, because angles grow with the context length.
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

/// Rotates the pairs of a head by the angles; `direction` -1 rotates back. `to` may be `from`.
void turn(const float* from, const float* cosines, const float* sines, float direction, std::int64_t pairs,
          float* to) {
#pragma omp simd
  for (std::int64_t i = 0; i < pairs; ++i) {
    const float x = from[i], y = from[i + pairs], c = cosines[i], s = direction * sines[i];
    to[i] = x * c - y * s;
    to[i + pairs] = y * c + x * s;
  }
}

/// Rotates the heads of q and k of all rows by their positions, or back. Copies the heads of v.
void turn_rows(const KernelContext& exec, ConstTensorView from, TensorView to, const PackedHeads& heads,
               const Turns& turns, float direction) {
  const std::int64_t seq_len = from.shape[1], tokens = from.shape[0] * seq_len, row = heads.packed();
  assert(from.shape[2] == row && to.num_elems() == tokens * row);
  const bool converts = from.dtype != DType::kFloat32;
  const ThreadScratch scratch(exec, converts ? 2 * row : 0);
  for_each_piece(exec, tokens, tokens * row, [&](std::int64_t token) {
    float* buffer = scratch.mine();
    const float* x = read(from, token * row, row, buffer);
    float* y = place(to, token * row, converts ? buffer + row : nullptr);
    const float *c = turns.cosines(token % seq_len), *s = turns.sines(token % seq_len);
    const std::int64_t turned = (heads.queries + heads.keys) * heads.dim;
    for (std::int64_t at = 0; at < turned; at += heads.dim) {
      turn(x + at, c, s, direction, heads.dim / 2, y + at);
    }
    if (y != x) std::copy(x + turned, x + row, y + turned);
    write(to, token * row, row, y);
  });
}

}  // namespace

void run_op(const KernelContext& exec, const RopeFwdArgs& args) {
  check_one_float_type("rope_fwd", {args.qkv, args.out});
  const PackedHeads heads = packed_heads(args);
  assert(heads.dim == 2 * args.rope.num_pairs);
  const Turns turns(exec, args.rope, args.qkv.shape[1], args.first_position);
  turn_rows(exec, args.qkv, args.out, heads, turns, 1.0f);
}

void run_op(const KernelContext& exec, const RopeBwdArgs& args) {
  check_one_float_type("rope_bwd", {args.dout, args.dqkv});
  const PackedHeads heads = packed_heads(args.dout.shape[2], args.num_heads, args.num_kv_heads);
  assert(heads.dim == 2 * args.rope.num_pairs);
  const Turns turns(exec, args.rope, args.dout.shape[1]);
  turn_rows(exec, args.dout, args.dqkv, heads, turns, -1.0f);
}

}  // namespace trireme::cpu
