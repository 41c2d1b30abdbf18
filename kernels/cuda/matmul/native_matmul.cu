#include "kernels/cuda/matmul/native_matmul.h"

#include <cassert>

#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/tile_product.cuh"

namespace trireme::cuda {
namespace {

// A matrix in memory, as tile_product.cuh reads it.
template <class T>
struct MatrixOperand {
  static constexpr bool kAlongDepth = false;
  using Line = std::int64_t;
  using Depth = std::int64_t;
  const T* data;
  std::int64_t line_stride, depth_stride;
  __device__ Line line(int i) const { return i * line_stride; }
  __device__ Depth depth(int i) const { return i * depth_stride; }
  __device__ float at(Line line, Depth depth) const { return to_float(data[line + depth]); }
};

// `c` may be null or `d`, because each thread reads an element before it writes it.
template <class In, class Out>
__global__ void __launch_bounds__(kThreads)
    native_matmul_kernel(MatrixOperand<In> a, MatrixOperand<In> b, int m, int n, int k, const Out* c, Out* d,
                         std::int64_t d_pitch) {
  const int col_tiles = (n + kProductTile - 1) / kProductTile, tile = static_cast<int>(blockIdx.x);
  const ProductPart part{.first_row = tile / col_tiles * kProductTile,
                         .rows = m,
                         .first_col = tile % col_tiles * kProductTile,
                         .cols = n,
                         .first_depth = 0,
                         .last_depth = k};
  tile_product(part, a, b, [&](int row, int col, float sum) {
    const std::int64_t at = row * d_pitch + col;
    if (c != nullptr) sum += to_float(c[at]);
    d[at] = from_float<Out>(sum);
  });
}

}  // namespace

void native_matmul(const KernelContext& exec, const Product& product, const ProductPointers& pointers) {
  constexpr std::int64_t kMostExtent = 0x7fffffff - kProductTile;
  const std::int64_t m = product.m, n = product.n, k = product.k;
  assert(product.epilogue == Epilogue::kNone);
  TRIREME_CHECK(m <= kMostExtent && n <= kMostExtent && k <= kMostExtent,
                "cuda: a product of [{} x {} x {}] is too large; use a smaller micro-batch", m, n, k);
  const bool ta = product.transpose_a == Transpose::kYes, tb = product.transpose_b == Transpose::kYes;
  const auto run = [&]<class In, class Out>(In, Out) {
    const std::int64_t a_pitch = product.a_pitch > 0 ? product.a_pitch : ta ? m : k;
    const std::int64_t b_pitch = product.b_pitch > 0 ? product.b_pitch : tb ? k : n;
    const MatrixOperand<In> a{static_cast<const In*>(pointers.a), ta ? 1 : a_pitch, ta ? a_pitch : 1};
    const MatrixOperand<In> b{static_cast<const In*>(pointers.b), tb ? b_pitch : 1, tb ? 1 : b_pitch};
    launch(exec, "matmul", grid_of(ceil_div(m, kProductTile) * ceil_div(n, kProductTile)), kThreads, 0,
           native_matmul_kernel<In, Out>, a, b, static_cast<int>(m), static_cast<int>(n), static_cast<int>(k),
           product.add_c ? static_cast<const Out*>(pointers.c) : nullptr, static_cast<Out*>(pointers.d),
           product.d_pitch > 0 ? product.d_pitch : n);
  };
  for_float_type("matmul", product.in, [&]<class In>(In in) {
    if (product.out == product.in) return run(in, in);
    run(in, float{});
  });
}

}  // namespace trireme::cuda
