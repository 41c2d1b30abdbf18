// Copies of key and value heads, and sums of their gradients. One block per token.
#include <cassert>

#include "kernels/cuda/attention/repeated_heads.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/pack.cuh"

namespace trireme::cuda {
namespace {

// Elements of a row. `keys` is the offset of k in a packed row.
struct RowShape {
  int keys, packed, head, group, elems;

  // The offset of the first copy of element i of k and v, counted as they are packed.
  __device__ int first_copy(int i) const { return i / head * group * head + i % head; }
};

RowShape shape_of(const PackedHeads& heads) {
  return {.keys = static_cast<int>(heads.width()),
          .packed = static_cast<int>(heads.packed()),
          .head = static_cast<int>(heads.dim),
          .group = static_cast<int>(heads.group()),
          .elems = static_cast<int>(2 * heads.keys * heads.dim)};
}

template <class T, int N>
__global__ void __launch_bounds__(kThreads) repeat_heads_kernel(RowShape shape, const T* qkv, T* to) {
  const std::int64_t token = blockIdx.x;
  const T* from = qkv + token * shape.packed + shape.keys;
  to += token * shape.elems * shape.group;
  for (int i = threadIdx.x * N; i < shape.elems; i += kThreads * N) {
    const Pack<T, N> pack = load_pack<N>(from + i);
    T* copy = to + shape.first_copy(i);
    for (int c = 0; c < shape.group; ++c, copy += shape.head) *reinterpret_cast<Pack<T, N>*>(copy) = pack;
  }
}

template <class T, int N>
__global__ void __launch_bounds__(kThreads) add_repeated_kernel(RowShape shape, const T* from, T* dqkv) {
  const std::int64_t token = blockIdx.x;
  from += token * shape.elems * shape.group;
  T* to = dqkv + token * shape.packed + shape.keys;
  for (int i = threadIdx.x * N; i < shape.elems; i += kThreads * N) {
    const T* copy = from + shape.first_copy(i);
    float sum[N], next[N];
    load<N>(copy, sum);
    for (int c = 1; c < shape.group; ++c) {
      load<N>(copy + c * shape.head, next);
#pragma unroll
      for (int e = 0; e < N; ++e) sum[e] += next[e];
    }
    store<N>(to + i, sum);
  }
}

}  // namespace

void repeat_heads(const KernelContext& exec, ConstTensorView qkv, const PackedHeads& heads, void* to) {
  const std::int64_t tokens = qkv.shape[0] * qkv.shape[1];
  for_float_type("attention_bwd", qkv.dtype, [&]<class T>(T) {
    with_pack<T>(rows_are_packable(heads.dim, sizeof(T), {qkv.data, to}),
                 [&]<int N>(std::integral_constant<int, N>) {
                   launch(exec, "attention_bwd", grid_of(tokens), kThreads, 0, repeat_heads_kernel<T, N>,
                          shape_of(heads), qkv.as<T>(), static_cast<T*>(to));
                 });
  });
}

void add_repeated(const KernelContext& exec, const void* from, const PackedHeads& heads, TensorView dqkv) {
  const std::int64_t tokens = dqkv.shape[0] * dqkv.shape[1];
  for_float_type("attention_bwd", dqkv.dtype, [&]<class T>(T) {
    with_pack<T>(rows_are_packable(heads.dim, sizeof(T), {from, dqkv.data}),
                 [&]<int N>(std::integral_constant<int, N>) {
                   launch(exec, "attention_bwd", grid_of(tokens), kThreads, 0, add_repeated_kernel<T, N>,
                          shape_of(heads), static_cast<const T*>(from), dqkv.as<T>());
                 });
  });
}

}  // namespace trireme::cuda
