// Rotary positions. One block per token, one thread per pair of a head.
#include <cassert>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pack.cuh"

namespace trireme::cuda {
namespace {

struct RopeShape {
  std::int64_t seq_len = 0;
  int turned_heads = 0, heads = 0;  // heads of q and k; all heads including v
  RopeFrequencies rope;
  std::int64_t first_position = 0;
};

// Angles are computed in double because they grow with the context length.
struct Turns {
  float cosines[RopeFrequencies::kMaxPairs], sines[RopeFrequencies::kMaxPairs];

  __device__ void fill(const RopeShape& shape, std::int64_t token) {
    const auto position = static_cast<double>(shape.first_position + token % shape.seq_len);
    for (int i = threadIdx.x; i < shape.rope.num_pairs; i += blockDim.x) {
      const double angle = position * shape.rope.frequencies[i];
      cosines[i] = static_cast<float>(cos(angle));
      sines[i] = static_cast<float>(sin(angle));
    }
    __syncthreads();
  }
};

// Stores the pair (x, y), rotated by +-angle.
template <class T>
__device__ void store_turned(T* to, int pairs, float x, float y, float cosine, float sine) {
  to[0] = from_float<T>(x * cosine - y * sine);
  to[pairs] = from_float<T>(y * cosine + x * sine);
}

// Rotates by +-angle. `to` may be `from`, because a thread reads all that it overwrites before it writes.
template <class T>
__global__ void __launch_bounds__(kThreads)
    rope_kernel(const T* from, T* to, RopeShape shape, float direction) {
  __shared__ Turns turns;
  const std::int64_t token = blockIdx.x;
  turns.fill(shape, token);
  const int pairs = shape.rope.num_pairs, turned = shape.turned_heads * pairs;
  const std::int64_t row = token * shape.heads * 2 * pairs;
  for (int e = threadIdx.x; e < shape.heads * pairs; e += blockDim.x) {
    const std::int64_t at = row + e / pairs * 2 * pairs + e % pairs;
    const T x = from[at], y = from[at + pairs];
    if (e < turned) {
      store_turned(to + at, pairs, to_float(x), to_float(y), turns.cosines[e % pairs],
                   direction * turns.sines[e % pairs]);
    } else {
      to[at] = x;
      to[at + pairs] = y;
    }
  }
}

void turn_rows(const KernelContext& exec, const char* op, ConstTensorView from, TensorView to,
               const PackedHeads& heads, RopeShape shape, float direction) {
  check_dtype(op, from.dtype, {to});
  const std::int64_t tokens = from.shape[0] * from.shape[1];
  assert(heads.dim == 2 * shape.rope.num_pairs && to.num_elems() == tokens * heads.packed());
  if (tokens == 0) return;
  shape.seq_len = from.shape[1];
  shape.turned_heads = static_cast<int>(heads.queries + heads.keys);
  shape.heads = static_cast<int>(heads.queries + 2 * heads.keys);
  for_float_type(op, from.dtype, [&]<class T>(T) {
    launch(exec, op, grid_of(tokens), kThreads, 0, rope_kernel<T>, from.as<T>(), to.as<T>(), shape,
           direction);
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
