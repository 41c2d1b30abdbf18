// Rotary positions: a block a token, a thread a pair of a head.
#include <cassert>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pack.cuh"

namespace trireme::cuda {
namespace {

struct RopeShape {
  std::int64_t seq_len;
  int heads, kv_heads;
  RopeFrequencies rope;
  std::int64_t first_position = 0;
};

// The angles are computed in double: they grow to the length of the context.
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

// The pair (x, y), turned by +-angle.
template <class T>
__device__ void store_turned(T* to, int pairs, float x, float y, float cosine, float sine) {
  to[0] = from_float<T>(x * cosine - y * sine);
  to[pairs] = from_float<T>(y * cosine + x * sine);
}

template <class T>
__global__ void __launch_bounds__(kThreads) rope_fwd_kernel(const T* qkv, T* out, RopeShape shape) {
  __shared__ Turns turns;
  const std::int64_t token = blockIdx.x;
  turns.fill(shape, token);
  const int pairs = shape.rope.num_pairs, dim = 2 * pairs;
  const T* q = qkv + token * (shape.heads + 2 * shape.kv_heads) * dim;
  const T *k = q + shape.heads * dim, *v = k + shape.kv_heads * dim;
  T* to = out + token * 3 * shape.heads * dim;
  for (int e = threadIdx.x; e < shape.heads * pairs; e += blockDim.x) {
    const int head = e / pairs, i = e % pairs;
    const int at = head * dim + i, kv = head / (shape.heads / shape.kv_heads) * dim + i;
    const float c = turns.cosines[i], s = turns.sines[i];
    T *k_to = to + shape.heads * dim + at, *v_to = k_to + shape.heads * dim;
    store_turned(to + at, pairs, to_float(q[at]), to_float(q[at + pairs]), c, s);
    store_turned(k_to, pairs, to_float(k[kv]), to_float(k[kv + pairs]), c, s);
    v_to[0] = v[kv];
    v_to[pairs] = v[kv + pairs];
  }
}

// `dqkv` may be `dout` where no head is copied: a thread reads what it writes, and writes last.
template <class T>
__global__ void __launch_bounds__(kThreads) rope_bwd_kernel(const T* dout, T* dqkv, RopeShape shape) {
  __shared__ Turns turns;
  const std::int64_t token = blockIdx.x;
  turns.fill(shape, token);
  const int pairs = shape.rope.num_pairs, dim = 2 * pairs, copies = shape.heads / shape.kv_heads;
  const T* dq = dout + token * 3 * shape.heads * dim;
  T* to = dqkv + token * (shape.heads + 2 * shape.kv_heads) * dim;
  for (int e = threadIdx.x; e < shape.heads * pairs; e += blockDim.x) {
    const int at = e / pairs * dim + e % pairs, i = e % pairs;
    store_turned(to + at, pairs, to_float(dq[at]), to_float(dq[at + pairs]), turns.cosines[i],
                 -turns.sines[i]);
  }
  for (int e = threadIdx.x; e < 2 * shape.kv_heads * pairs; e += blockDim.x) {  // k's, then v's
    const int head = e / pairs, i = e % pairs;
    const T* from = dq + (shape.heads + head * copies) * dim + i;
    float x = 0.0f, y = 0.0f;
    for (int copy = 0; copy < copies; ++copy) {
      x += to_float(from[copy * dim]);
      y += to_float(from[copy * dim + pairs]);
    }
    const bool is_key = head < shape.kv_heads;
    store_turned(to + (shape.heads + head) * dim + i, pairs, x, y, is_key ? turns.cosines[i] : 1.0f,
                 is_key ? -turns.sines[i] : 0.0f);
  }
}

}  // namespace

void run_op(const KernelContext& exec, const RopeFwdArgs& args) {
  assert(args.num_heads % args.num_kv_heads == 0);
  check_dtype("rope_fwd", args.qkv.dtype, {args.out});
  const std::int64_t tokens = args.qkv.shape[0] * args.qkv.shape[1];
  if (tokens == 0) return;
  for_float_type("rope_fwd", args.qkv.dtype, [&]<class T>(T) {
    launch(exec, "rope_fwd", grid_of(tokens), kThreads, 0, rope_fwd_kernel<T>, args.qkv.as<T>(),
           args.out.as<T>(),
           RopeShape{args.qkv.shape[1], args.num_heads, args.num_kv_heads, args.rope, args.first_position});
  });
}

void run_op(const KernelContext& exec, const RopeBwdArgs& args) {
  assert(args.num_heads % args.num_kv_heads == 0);
  check_dtype("rope_bwd", args.dout.dtype, {args.dqkv});
  const std::int64_t tokens = args.dout.shape[0] * args.dout.shape[1];
  if (tokens == 0) return;
  for_float_type("rope_bwd", args.dout.dtype, [&]<class T>(T) {
    launch(exec, "rope_bwd", grid_of(tokens), kThreads, 0, rope_bwd_kernel<T>, args.dout.as<T>(),
           args.dqkv.as<T>(), RopeShape{args.dout.shape[1], args.num_heads, args.num_kv_heads, args.rope});
  });
}

}  // namespace trireme::cuda
