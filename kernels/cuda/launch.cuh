// Common parts of native kernels: dtype checks, grid size, checked launch.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <initializer_list>
#include <utility>

#include "kernels/cuda/device/stream.h"
#include "runtime/base/error.h"

namespace trireme::cuda {

inline constexpr int kWarp = 32;
/// The default number of threads per block.
inline constexpr int kThreads = 256;

__host__ __device__ constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// A grid of `blocks` in the x direction; the maximum is 2^31 - 1.
inline dim3 grid_of(std::int64_t blocks) {
  TRIREME_CHECK(blocks <= 0x7fffffff, "cuda: a kernel would need {} blocks; use a smaller micro-batch",
                blocks);
  return dim3(static_cast<unsigned>(blocks));
}

/// Launches `kernel` on the context's stream, in clusters of `cluster` neighbouring blocks if that is more
/// than 1 (see cluster.cuh). `op` names it in errors.
template <class... Params, class... Args>
void launch_clusters(const KernelContext& exec, const char* op, unsigned cluster, dim3 grid, dim3 block,
                     std::size_t shared_bytes, void (*kernel)(Params...), Args&&... args) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream_of(exec).get();
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {cluster, 1, 1};
  config.attrs = &attribute;
  config.numAttrs = cluster > 1 ? 1 : 0;
  check(cudaLaunchKernelEx(&config, kernel, std::forward<Args>(args)...), op);
}

template <class... Params, class... Args>
void launch(const KernelContext& exec, const char* op, dim3 grid, dim3 block, std::size_t shared_bytes,
            void (*kernel)(Params...), Args&&... args) {
  launch_clusters(exec, op, 1, grid, block, shared_bytes, kernel, std::forward<Args>(args)...);
}

/// Calls run(T{}) with the element type of `dtype`. Throws Error(kUnsupported) for types that are not floats.
template <class F>
void for_float_type(const char* op, DType dtype, F run) {
  switch (dtype) {
    case DType::kFloat32:
      return run(float{});
    case DType::kFloat16:
      return run(__half{});
    case DType::kBFloat16:
      return run(__nv_bfloat16{});
    default:
      throw Error(ErrorCode::kUnsupported, "{} on cuda does not take {}", op, name(dtype));
  }
}

/// Throws Error(kUnsupported) naming `op` unless all defined views have `dtype`.
inline void check_dtype(const char* op, DType dtype, std::initializer_list<ConstTensorView> views) {
  for (const ConstTensorView& view : views) {
    if (!view.defined() || view.dtype == dtype) continue;
    throw Error(ErrorCode::kUnsupported, "{} on cuda: a tensor of {} stands where {} is needed", op,
                name(view.dtype), name(dtype));
  }
}

}  // namespace trireme::cuda
