#include <cassert>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pack.cuh"

namespace trireme::cuda {
namespace {

// One thread per group of 4 elements and one draw per thread: the group's own, or the draw of the sample's
// first group. Groups are counted over the whole sample; x holds sample_elems elements from first_elem on.
// kPacked: all groups are complete and aligned.
template <class T, bool kPacked>
__global__ void dropout_kernel(const T* x, const T* residual, T* y, std::int64_t samples,
                               std::int64_t sample_elems, float p, DropUnit unit, RngKey rng,
                               std::int64_t first_sample, std::int64_t first_elem) {
  const std::int64_t skipped = first_elem % 4;  // elements of the first group that are not in x
  const std::int64_t groups = ceil_div(skipped + sample_elems, 4);
  const std::int64_t index = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t sample = index / groups, group = index % groups;
  if (sample >= samples) return;
  const bool whole = unit == DropUnit::kSample;
  Philox4 bits = rng.draw(static_cast<std::uint32_t>(first_sample + sample),
                          whole ? 0u : static_cast<std::uint32_t>(first_elem / 4 + group));
  if (whole) bits[1] = bits[2] = bits[3] = bits[0];
  const float inverse = 1.0f / (1.0f - p);
  const std::int64_t of_sample = group * 4 - skipped, first = sample * sample_elems + of_sample;
  if constexpr (kPacked) {
    float v[4];
    load<4>(x + first, v);
#pragma unroll
    for (int i = 0; i < 4; ++i) v[i] = uniform_from_bits(bits[i]) >= p ? v[i] * inverse : 0.0f;
    if (residual != nullptr) {
      float r[4];
      load<4>(residual + first, r);
#pragma unroll
      for (int i = 0; i < 4; ++i) v[i] += r[i];
    }
    store<4>(y + first, v);
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (of_sample + i < 0 || of_sample + i >= sample_elems) continue;
      float v = uniform_from_bits(bits[i]) >= p ? to_float(x[first + i]) * inverse : 0.0f;
      if (residual != nullptr) v += to_float(residual[first + i]);
      y[first + i] = from_float<T>(v);
    }
  }
}

}  // namespace

void run_op(const KernelContext& exec, const DropoutArgs& args) {
  const std::int64_t n = args.x.num_elems();
  assert(args.y.num_elems() == n);
  check_dtype("dropout", args.x.dtype, {args.residual, args.y});
  if (n == 0) return;
  const std::int64_t samples = args.x.shape[0], sample_elems = n / samples;
  const std::int64_t threads = samples * ceil_div(args.first_elem % 4 + sample_elems, 4);
  for_float_type("dropout", args.x.dtype, [&]<class T>(T) {
    const T *x = args.x.as<T>(), *residual = args.residual.as<T>();
    T* y = args.y.as<T>();
    const auto run = [&](auto kernel) {
      launch(exec, "dropout", grid_of(ceil_div(threads, kThreads)), kThreads, 0, kernel, x, residual, y,
             samples, sample_elems, args.p, args.unit, args.rng, args.first_sample, args.first_elem);
    };
    if (sample_elems % 4 == 0 && args.first_elem % 4 == 0 && are_aligned({x, residual, y})) {
      run(dropout_kernel<T, true>);
    } else {
      run(dropout_kernel<T, false>);
    }
  });
}

}  // namespace trireme::cuda
