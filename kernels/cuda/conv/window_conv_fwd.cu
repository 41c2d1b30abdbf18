// Forward of convolutions in tiles of windows.
#include <algorithm>

#include "kernels/cuda/conv/window_conv.h"
#include "kernels/cuda/conv/window_tiles.cuh"
#include "kernels/cuda/device/workspace.h"
#include "kernels/cuda/dynamic_shared.cuh"
#include "kernels/cuda/sixteen_bit_mma.cuh"
#include "kernels/cuda/tensor_cores.h"

namespace trireme::cuda {
namespace {

constexpr int kForwardBlocks = 4 * 132;  // concurrent; the result does not depend on it

// A word mask of the factors k and k + 1 (k even) that exist in the window.
__device__ inline std::uint32_t factor_mask(const WindowConv& c, int k) {
  if (k / c.row_factors >= c.s.kernel_height) return 0;
  return k % c.row_factors + 1 < c.row_elems() ? 0xffffffffu : 0xffffu;
}

// Two neighbouring elements as a word. kEven: `at` is even.
template <bool kEven, class T>
__device__ inline std::uint32_t pair_at(const T* patch, int at) {
  if constexpr (!kEven) return word_of(patch[at], patch[at + 1]);
  const Pack<T, 2> pair = load_pack<2>(patch + at);
  return word_of(pair.elems[0], pair.elems[1]);
}

// fragments[O / 64, steps, 4, lanes, 8]: the words of `b` of each lane, for each depth step of an instruction
// and two of its output tiles, 16 bytes at a time. Zeros beyond the weight [O, C, R, S].
template <class T>
__global__ void pack_fragments_kernel(WindowConv c, const T* weight, T* fragments, std::int64_t n) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const int element = static_cast<int>(i % 8), lane = static_cast<int>(i / 8 % kWarp),
            tiles = static_cast<int>(i / (8 * kWarp) % (kOutTiles / 2));
  const auto rest = static_cast<int>(i / (8 * kWarp * (kOutTiles / 2)));
  const int word = element / 2, step = rest % c.steps();
  const int output = rest / c.steps() * kOutputs + (2 * tiles + word / 2) * 8 + lane / 4;
  const int k = step * kDepth + 2 * (lane % 4) + word % 2 * 8 + element % 2;
  const int row = k / c.row_factors, at = k % c.row_factors, col = at / c.s.channels,
            channel = at % c.s.channels;
  const bool inside = output < c.s.outputs && row < c.s.kernel_height && at < c.row_elems();
  fragments[i] = inside ? weight[((std::int64_t{output} * c.s.channels + channel) * c.s.kernel_height + row) *
                                     c.s.kernel_width +
                                 col]
                        : from_float<T>(0.0f);
}

struct alignas(8) FactorPair {
  int offset;
  std::uint32_t mask;
};

std::size_t fwd_shared_bytes(const WindowConv& c) {
  return out_bytes() + patch_bytes(c) +
         static_cast<std::size_t>(c.steps()) *
             (kOutTiles / 2 * kWarp * sizeof(Words16) + kDepth / 2 * sizeof(FactorPair));
}

// Writes a warp's two rows of a tile to y, from `own` [2, kCols, kOutPitch].
template <class T>
__device__ void write_outputs(const ConvShape& s, const T* own, const TilePlace& place, int first_row,
                              int first_output, bool packed, T* y) {
  y += std::int64_t{place.image} * s.out_height * s.out_width * s.outputs + first_output;
#pragma unroll 2
  for (int i = static_cast<int>(threadIdx.x) % kWarp; i < 2 * kCols * kOutTiles; i += kWarp) {
    const int pixel = i / kOutTiles, output = i % kOutTiles * 8;
    const int row = first_row + pixel / kCols, col = place.col + pixel % kCols;
    const int left = row < s.out_height && col < s.out_width ? s.outputs - first_output - output : 0;
    if (left <= 0) continue;
    const auto values = load_pack<8>(own + pixel * kOutPitch + output);
    T* const to = y + (std::int64_t{row} * s.out_width + col) * s.outputs + output;
    if (packed) {
      *reinterpret_cast<Pack<T, 8>*>(to) = values;
    } else {
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        if (e < left) to[e] = values.elems[e];
      }
    }
  }
}

// blockIdx.y selects kOutputs outputs. A block computes every gridDim.x-th tile, a warp two rows of a tile.
template <class T, bool kEven>
__global__ void __launch_bounds__(kWindowThreads)
    window_fwd_kernel(WindowConv c, const T* x, const Words16* weight, const T* bias, T* y, bool packed) {
  constexpr int kRowOfFragments = kOutTiles / 2 * kWarp;
  const ConvShape& s = c.s;
  const int steps = c.steps();
  T* const out = reinterpret_cast<T*>(dynamic_shared());
  T* const patch = out + kRows * kCols * kOutPitch;
  auto* const fragments = reinterpret_cast<Words16*>(patch + (c.patch_rows * c.pitch + 7) / 8 * 8);
  auto* const pairs = reinterpret_cast<FactorPair*>(fragments + steps * kRowOfFragments);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / kWarp, lane = thread % kWarp;
  const int g = lane / 4, t = lane % 4, first_output = static_cast<int>(blockIdx.y) * kOutputs;

  weight += std::int64_t{blockIdx.y} * steps * kRowOfFragments;
  for (int i = thread; i < steps * kRowOfFragments; i += kWindowThreads) fragments[i] = weight[i];
  for (int i = thread; i < steps * (kDepth / 2); i += kWindowThreads) {
    pairs[i] = {factor_offset(c, 2 * i), factor_mask(c, 2 * i)};
  }
  const int step_right = s.stride * s.channels, step_down = s.stride * c.pitch;
  const int window = 2 * warp * step_down + g * step_right;  // of the lane's first pixel
  T* const own_out = out + warp * 2 * kCols * kOutPitch;
  for (int tile = static_cast<int>(blockIdx.x); tile < c.tiles; tile += static_cast<int>(gridDim.x)) {
    const TilePlace place = tile_place(c, tile);
    __syncthreads();  // the previous patch has been read
    load_patch(c, x, place, patch);
    __syncthreads();
    if (place.row + 2 * warp >= s.out_height) continue;  // no row of this warp
    float sum[2][kOutTiles][4] = {};
    for (int step = 0; step < steps; ++step) {
      const FactorPair first = pairs[step * 8 + t], second = pairs[step * 8 + t + 4];
      std::uint32_t a[2][4];
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        const int left = window + m * step_down, right = left + 8 * step_right;
        a[m][0] = pair_at<kEven>(patch, left + first.offset) & first.mask;
        a[m][1] = pair_at<kEven>(patch, right + first.offset) & first.mask;
        a[m][2] = pair_at<kEven>(patch, left + second.offset) & second.mask;
        a[m][3] = pair_at<kEven>(patch, right + second.offset) & second.mask;
      }
#pragma unroll
      for (int n = 0; n < kOutTiles / 2; ++n) {
        const Words16 b = fragments[step * kRowOfFragments + n * kWarp + lane];
        const std::uint32_t even[2] = {b.words[0], b.words[1]}, odd[2] = {b.words[2], b.words[3]};
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          mma_16_bit<T>(sum[m][2 * n], a[m], even);
          mma_16_bit<T>(sum[m][2 * n + 1], a[m], odd);
        }
      }
    }
    // Goes through shared memory, so that neighbouring threads write neighbouring outputs.
    __syncwarp();
#pragma unroll
    for (int n = 0; n < kOutTiles; ++n) {
      float added[2] = {};
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int output = first_output + n * 8 + 2 * t + e;
        if (bias != nullptr && output < s.outputs) added[e] = to_float(bias[output]);
      }
#pragma unroll
      for (int m = 0; m < 2; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float pair[2] = {sum[m][n][2 * half] + added[0], sum[m][n][2 * half + 1] + added[1]};
          store<2>(own_out + (m * kCols + half * 8 + g) * kOutPitch + n * 8 + 2 * t, pair);
        }
      }
    }
    __syncwarp();
    write_outputs(s, own_out, place, place.row + 2 * warp, first_output, packed, y);
  }
}

}  // namespace

bool suits_window_tiles(const KernelContext& exec, const Shape& weight, const ConvGeometry& geometry,
                        DType dtype) {
  return takes_window_tiles(weight, geometry, dtype) && has_tensor_cores(exec);
}

void window_conv_fwd(const KernelContext& exec, const Conv2dFwdArgs& args) {
  constexpr const char* kOp = "conv2d_fwd";
  const WindowConv c = window_conv(args.x.shape, args.weight.shape, args.y.shape, args.geometry);
  const WindowTiles tiles(args.weight.shape, args.geometry, args.y.shape);
  const std::int64_t bytes = tiles.weight_bytes(c.s.outputs), n = bytes / size_bytes(args.x.dtype);
  const Workspace fragments(exec, static_cast<std::size_t>(bytes));
  for_sixteen_bit_type(kOp, args.x.dtype, [&]<class T>(T) {
    launch(exec, kOp, grid_of(ceil_div(n, kThreads)), kThreads, 0, pack_fragments_kernel<T>, c,
           args.weight.as<T>(), fragments.as<T>(), n);
    T* const y = args.y.as<T>();
    const bool packed = rows_are_packable(c.s.outputs, sizeof(T), {y});
    dim3 grid = grid_of(std::min(c.tiles, kForwardBlocks));
    grid.y = static_cast<unsigned>(tiles.output_tiles(c.s.outputs));
    const auto run = [&](auto* kernel) {
      allow_shared_bytes(kOp, kernel, fwd_shared_bytes(c));
      launch(exec, kOp, grid, kWindowThreads, fwd_shared_bytes(c), kernel, c, args.x.as<T>(),
             fragments.as<const Words16>(), args.bias.as<T>(), y, packed);
    };
    const bool is_even = c.s.stride * c.s.channels % 2 == 0;
    is_even ? run(window_fwd_kernel<T, true>) : run(window_fwd_kernel<T, false>);
  });
}

}  // namespace trireme::cuda
