// Adds a vector to all positions of a sample, and the backward of it, a sum over positions.
#include <cassert>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pack.cuh"

namespace trireme::cuda {
namespace {

constexpr int kShiftThreads = 128;  // per position

// One block per position of a sample.
template <class T, int N>
__global__ void shift_channels_kernel(const T* x, const T* shift, T* y, std::int64_t positions,
                                      std::int64_t channels) {
  const std::int64_t row = blockIdx.x, sample = row / positions;
  for (std::int64_t c = std::int64_t{threadIdx.x} * N; c < channels; c += std::int64_t{kShiftThreads} * N) {
    float v[N], s[N];
    load<N>(x + row * channels + c, v);
    load<N>(shift + sample * channels + c, s);
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] += s[i];
    store<N>(y + row * channels + c, v);
  }
}

constexpr int kSumLanes = 32, kSumRows = 8;

// One block per sample and 32 channels. Each of 8 rows of threads sums every eighth position; then the first
// row adds the sums of the rows, in order.
template <class T>
__global__ void sum_positions_kernel(const T* x, T* sum, std::int64_t positions, std::int64_t channels,
                                     std::int64_t strips) {
  __shared__ float parts[kSumRows][kSumLanes];
  const std::int64_t sample = blockIdx.x / strips;
  const int lane = threadIdx.x % kSumLanes, row = threadIdx.x / kSumLanes;
  const std::int64_t c = blockIdx.x % strips * kSumLanes + lane;
  float total = 0.0f;
  if (c < channels) {
    for (std::int64_t p = row; p < positions; p += kSumRows) {
      total += to_float(x[(sample * positions + p) * channels + c]);
    }
  }
  parts[row][lane] = total;
  __syncthreads();
  if (row > 0 || c >= channels) return;
#pragma unroll
  for (int r = 1; r < kSumRows; ++r) total += parts[r][lane];
  sum[sample * channels + c] = from_float<T>(total);
}

}  // namespace

void run_op(const KernelContext& exec, const ShiftChannelsArgs& args) {
  const std::int64_t positions = args.y.shape[1], channels = args.y.shape[2];
  assert(args.x.num_elems() == args.y.num_elems() && args.shift.num_elems() == args.y.shape[0] * channels);
  check_dtype("shift_channels", args.y.dtype, {args.x, args.shift});
  if (args.y.num_elems() == 0) return;
  for_float_type("shift_channels", args.y.dtype, [&]<class T>(T) {
    const bool packed = rows_are_packable(channels, sizeof(T), {args.x.data, args.shift.data, args.y.data});
    with_pack<T>(packed, [&]<int N>(std::integral_constant<int, N>) {
      launch(exec, "shift_channels", grid_of(args.y.num_elems() / channels), kShiftThreads, 0,
             shift_channels_kernel<T, N>, args.x.as<T>(), args.shift.as<T>(), args.y.as<T>(), positions,
             channels);
    });
  });
}

void run_op(const KernelContext& exec, const SumPositionsArgs& args) {
  const std::int64_t positions = args.x.shape[1], channels = args.x.shape[2];
  assert(args.sum.num_elems() == args.x.shape[0] * channels);
  check_dtype("sum_positions", args.x.dtype, {args.sum});
  if (args.sum.num_elems() == 0) return;
  const std::int64_t strips = ceil_div(channels, kSumLanes);
  for_float_type("sum_positions", args.x.dtype, [&]<class T>(T) {
    launch(exec, "sum_positions", grid_of(args.x.shape[0] * strips), kSumLanes * kSumRows, 0,
           sum_positions_kernel<T>, args.x.as<T>(), args.sum.as<T>(), positions, channels, strips);
  });
}

}  // namespace trireme::cuda
