// Rotary positions. A block rotates a few neighbouring tokens. Its threads first compute the angles of all of
// them, one each, in double precision. Then a thread rotates several pairs of a head at a time. In place, v
// is not accessed.
#include <cassert>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pack.cuh"

namespace trireme::cuda {
namespace {

constexpr int kTokens = 8;  // of a block

struct RopeShape {
  std::int64_t tokens = 0, seq_len = 0;
  int turned_heads = 0, heads = 0;  // heads of q and k; all heads including v
  RopeFrequencies rope;
  std::int64_t first_position = 0;
};

// Angles are computed in double because they grow with the context length.
struct Turns {
  float cosines[kTokens * RopeFrequencies::kMaxPairs], sines[kTokens * RopeFrequencies::kMaxPairs];

  __device__ void fill(const RopeShape& shape, std::int64_t first_token, int count) {
    const int pairs = shape.rope.num_pairs;
    for (int i = threadIdx.x; i < count * pairs; i += kThreads) {
      const auto position =
          static_cast<double>(shape.first_position + (first_token + i / pairs) % shape.seq_len);
      const double angle = position * shape.rope.frequencies[i % pairs];
      cosines[i] = static_cast<float>(cos(angle));
      sines[i] = static_cast<float>(sin(angle));
    }
    __syncthreads();
  }
};

// Rotates by +-angle. `to` may be `from`, because a thread reads all that it overwrites before it writes.
template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    rope_kernel(const T* from, T* to, RopeShape shape, float direction) {
  __shared__ Turns turns;
  const std::int64_t first_token = std::int64_t{blockIdx.x} * kTokens, left = shape.tokens - first_token;
  const int count = left < kTokens ? static_cast<int>(left) : kTokens;
  turns.fill(shape, first_token, count);
  const int pairs = shape.rope.num_pairs, packs = pairs / N;  // of a head
  const int row_packs = (from == to ? shape.turned_heads : shape.heads) * packs;
  for (int e = threadIdx.x; e < count * row_packs; e += kThreads) {
    const int token = e / row_packs, head = e % row_packs / packs, pair = e % packs * N;
    const std::int64_t at = ((first_token + token) * shape.heads + head) * 2 * pairs + pair;
    float x[N], y[N];
    load<N>(from + at, x);
    load<N>(from + at + pairs, y);
    if (head < shape.turned_heads) {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float cosine = turns.cosines[token * pairs + pair + i],
                    sine = direction * turns.sines[token * pairs + pair + i], first = x[i];
        x[i] = first * cosine - y[i] * sine;
        y[i] = y[i] * cosine + first * sine;
      }
    }
    store<N>(to + at, x);
    store<N>(to + at + pairs, y);
  }
}

void turn_rows(const KernelContext& exec, const char* op, ConstTensorView from, TensorView to,
               const PackedHeads& heads, RopeShape shape, float direction) {
  check_dtype(op, from.dtype, {to});
  const std::int64_t tokens = from.shape[0] * from.shape[1];
  assert(heads.dim == 2 * shape.rope.num_pairs && to.num_elems() == tokens * heads.packed());
  if (tokens == 0) return;
  shape.tokens = tokens;
  shape.seq_len = from.shape[1];
  shape.turned_heads = static_cast<int>(heads.queries + heads.keys);
  shape.heads = static_cast<int>(heads.queries + 2 * heads.keys);
  for_float_type(op, from.dtype, [&]<class T>(T) {
    with_pack<T>(rows_are_packable(shape.rope.num_pairs, sizeof(T), {from.data, to.data}),
                 [&]<int N>(std::integral_constant<int, N>) {
                   launch(exec, op, grid_of(ceil_div(tokens, kTokens)), kThreads, 0, rope_kernel<T, N>,
                          from.as<T>(), to.as<T>(), shape, direction);
                 });
  });
}

}  // namespace

void run_op(const KernelContext& exec, const RopeFwdArgs& args) {
  turn_rows(exec, "rope_fwd", args.qkv, args.out, packed_heads(args),
            {.rope = args.rope, .first_position = args.first_position}, 1.0f);
}

void run_op(const KernelContext& exec, const RopeBwdArgs& args) {
  turn_rows(exec, "rope_bwd", args.dout, args.dqkv,
            packed_heads(args.dout.shape[2], args.num_heads, args.num_kv_heads), {.rope = args.rope}, -1.0f);
}

}  // namespace trireme::cuda
