// Numbers of NF4 codes: see [Note: nf4]. The levels are kernel arguments, and products and sums are rounded
// one by one, so the numbers equal the CPU's.
#include "runtime/base/nf4.h"

#include <cassert>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pack.cuh"

namespace trireme::cuda {
namespace {

// A thread decodes the two codes of a byte.
template <class T>
__global__ void dequantize_nf4_kernel(const std::uint8_t* codes, const std::uint8_t* scale_codes,
                                      const float* scales, Nf4Levels levels, std::int64_t n, T* y) {
  const std::int64_t i = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * 2;
  if (i >= n) return;
  const std::int64_t block = i / kNf4Block;
  const float dynamic = levels.dynamic[scale_codes[block]];
  const float scale = __fadd_rn(__fmul_rn(dynamic, scales[1 + block / kNf4ScaleBlock]), scales[0]);
  const std::uint8_t pair = codes[i / 2];
  y[i] = from_float<T>(__fmul_rn(levels.levels[pair >> 4], scale));
  if (i + 1 < n) y[i + 1] = from_float<T>(__fmul_rn(levels.levels[pair & 15], scale));
}

}  // namespace

void run_op(const KernelContext& exec, const DequantizeNf4Args& args) {
  const std::int64_t n = args.y.num_elems();
  assert(args.codes.num_elems() == (n + 1) / 2 && args.scales.num_elems() == num_nf4_scales(n));
  check_dtype("dequantize_nf4", DType::kFloat32, {args.scales});
  if (n == 0) return;
  for_float_type("dequantize_nf4", args.y.dtype, [&]<class T>(T) {
    launch(exec, "dequantize_nf4", grid_of(ceil_div(n, std::int64_t{2} * kThreads)), kThreads, 0,
           dequantize_nf4_kernel<T>, args.codes.as<std::uint8_t>(), args.scale_codes.as<std::uint8_t>(),
           args.scales.as<float>(), nf4_levels(), n, args.y.as<T>());
  });
}

}  // namespace trireme::cuda
