#include <cassert>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pack.cuh"

namespace trireme::cuda {
namespace {

enum class Direction { kJoin, kSplit };

// One thread per N neighbouring elements of a joined row. `cols` and `total` are multiples of N.
template <Direction kDirection, class T, int N>
__global__ void channels_kernel(T* a, T* b, T* joined, std::int64_t n, std::int64_t cols,
                                std::int64_t total) {
  const std::int64_t first = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * N;
  if (first >= n) return;
  const std::int64_t row = first / total, c = first - row * total;
  T* const part = c < cols ? a + row * cols + c : b + row * (total - cols) + c - cols;
  if constexpr (kDirection == Direction::kJoin) {
    *reinterpret_cast<Pack<T, N>*>(joined + first) = load_pack<N>(part);
  } else {
    *reinterpret_cast<Pack<T, N>*>(part) = load_pack<N>(joined + first);
  }
}

template <Direction kDirection>
void run(const KernelContext& exec, const char* op, TensorView a, TensorView b, TensorView joined) {
  const std::int64_t n = joined.num_elems(), cols = a.shape[1], total = joined.shape[1];
  assert(b.shape[1] == total - cols && a.num_elems() + b.num_elems() == n);
  check_dtype(op, joined.dtype, {a, b});
  if (n == 0) return;
  for_float_type(op, joined.dtype, [&]<class T>(T) {
    const bool packs = rows_are_packable(cols, sizeof(T), {a.data, b.data, joined.data}) &&
                       rows_are_packable(total, sizeof(T), {});
    with_pack<T>(packs, [&]<int N>(std::integral_constant<int, N>) {
      launch(exec, op, grid_of(ceil_div(n, N * kThreads)), kThreads, 0, channels_kernel<kDirection, T, N>,
             a.as<T>(), b.as<T>(), joined.as<T>(), n, cols, total);
    });
  });
}

// A view that the kernel does not write.
TensorView unwritten(ConstTensorView view) {
  return {const_cast<void*>(view.data), view.dtype, view.shape};
}

}  // namespace

void run_op(const KernelContext& exec, const ConcatChannelsArgs& args) {
  run<Direction::kJoin>(exec, "concat_channels", unwritten(args.a), unwritten(args.b), args.y);
}

void run_op(const KernelContext& exec, const SplitChannelsArgs& args) {
  run<Direction::kSplit>(exec, "split_channels", args.a, args.b, unwritten(args.x));
}

}  // namespace trireme::cuda
