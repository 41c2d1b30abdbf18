// fp8 codes of tensors, and back: see [Note: fp8].
#include "kernels/cuda/quantize.h"

#include "kernels/cuda/codes.cuh"
#include "kernels/cuda/ops.h"

namespace trireme::cuda {
namespace {

template <class T>
struct Numbers {
  static constexpr int kParts = 1;
  const T* x;
  std::int64_t cols;

  template <int N>
  __device__ void read(std::int64_t row, std::int64_t col, float (&values)[kParts][N]) const {
    load<N>(x + row * cols + col, values[0]);
  }
};

__global__ void dequantize_kernel(const std::uint8_t* codes, std::int64_t n, const float* inverse_scale,
                                  Fp8Format format, __nv_bfloat16* numbers) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < n) numbers[i] = from_float<__nv_bfloat16>(float_of_fp8(codes[i], format) * *inverse_scale);
}

}  // namespace

bool is_fp8(DType dtype) {
  return dtype == DType::kE4m3 || dtype == DType::kE5m2;
}

void dequantize(const KernelContext& exec, ConstTensorView codes, ConstTensorView inverse_scale, void* bf16) {
  const std::int64_t n = codes.num_elems();
  if (n == 0) return;
  launch(exec, "dequantize", grid_of(ceil_div(n, kThreads)), kThreads, 0, dequantize_kernel,
         codes.as<std::uint8_t>(), n, inverse_scale.as<float>(), fp8_format(codes.dtype),
         static_cast<__nv_bfloat16*>(bf16));
}

void run_op(const KernelContext& exec, const QuantizeArgs& args) {
  const std::int64_t rows = args.x.shape.num_rows(), cols = args.x.shape.dim(-1);
  for_float_type("quantize", args.x.dtype, [&]<class T>(T) {
    write_codes(exec, "quantize", Numbers<T>{args.x.as<T>(), cols}, rows, cols, args.out,
                are_aligned({args.x.data}));
  });
}

}  // namespace trireme::cuda
