// Weight gradient of convolutions in tiles of windows.
#include "kernels/cuda/conv/window_conv.h"
#include "kernels/cuda/conv/window_tiles.cuh"
#include "kernels/cuda/device/workspace.h"
#include "kernels/cuda/dynamic_shared.cuh"
#include "kernels/cuda/sixteen_bit_mma.cuh"

namespace trireme::cuda {
namespace {

// Loads `a`, 16 outputs by 16 pixels, from a tile stored as [pixels, kOutPitch].
template <class T>
__device__ inline void load_outputs(const T* tile, std::uint32_t (&a)[4]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 750
  // Lanes 8 i to 8 i + 7 give the row addresses of the words a[i], which are transposed.
  const T* const row = tile + (lane / 16 * 8 + lane % 8) * kOutPitch + lane / 8 % 2 * 8;
  const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
               : "r"(at)
               : "memory");
#else
  const int g = lane / 4, t = lane % 4;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const T* const from = tile + (i / 2 * 8 + 2 * t) * kOutPitch + i % 2 * 8 + g;
    a[i] = word_of(from[0], from[kOutPitch]);
  }
#endif
}

// out[pixels, kOutPitch] = dy of the tile from `first_output` on, zeros beyond. Called by all threads.
// kPacked: 16 bytes at a time.
template <bool kPacked, class T>
__device__ void load_gradients(const ConvShape& s, const T* dy, const TilePlace& tile, int first_output,
                               T* out) {
  constexpr int kHeld = kPacked ? 4 : 1;
  dy += std::int64_t{tile.image} * s.out_height * s.out_width * s.outputs + first_output;
  for (int begin = static_cast<int>(threadIdx.x); begin < kRows * kCols * kOutTiles;
       begin += kHeld * kWindowThreads) {
    Words16 held[kHeld];
#pragma unroll
    for (int r = 0; r < kHeld; ++r) {
      const int i = begin + r * kWindowThreads, pixel = i / kOutTiles, output = i % kOutTiles * 8;
      const int row = tile.row + pixel / kCols, col = tile.col + pixel % kCols;
      const int left = row < s.out_height && col < s.out_width ? s.outputs - first_output - output : 0;
      const T* const from = dy + (std::int64_t{row} * s.out_width + col) * s.outputs + output;
      if constexpr (kPacked) {
        held[r] = left > 0 ? *reinterpret_cast<const Words16*>(from) : Words16{};
      } else {
#pragma unroll
        for (int e = 0; e < 8; e += 2) {
          const T zero = from_float<T>(0.0f);
          held[r].words[e / 2] = word_of(e < left ? from[e] : zero, e + 1 < left ? from[e + 1] : zero);
        }
      }
    }
#pragma unroll
    for (int r = 0; r < kHeld; ++r) {
      const int i = begin + r * kWindowThreads;
      *reinterpret_cast<Words16*>(out + i / kOutTiles * kOutPitch + i % kOutTiles * 8) = held[r];
    }
  }
}

// parts[O / 64, blocks, 64, factors]: dy^T times the windows of every gridDim.x-th tile. A warp has kTiles
// groups of 8 factors, kWarps groups apart.
template <class T, int kTiles, bool kPacked>
__global__ void __launch_bounds__(kWindowThreads)
    window_bwd_weight_kernel(WindowConv c, const T* dy, const T* x, float* parts) {
  constexpr int kOutputRows = kOutputs / 16;
  const ConvShape& s = c.s;
  T* const out = reinterpret_cast<T*>(dynamic_shared());
  T* const patch = out + kRows * kCols * kOutPitch;
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  const int g = lane / 4, t = lane % 4, first_output = static_cast<int>(blockIdx.y) * kOutputs;
  const int step_right = s.stride * s.channels, step_down = s.stride * c.pitch;
  int offset[kTiles];
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    offset[n] = factor_offset(c, (warp + n * kWarps) * 8 + g) + 2 * t * step_right;
  }
  float sum[kOutputRows][kTiles][4] = {};
  for (int tile = static_cast<int>(blockIdx.x); tile < c.tiles; tile += static_cast<int>(gridDim.x)) {
    const TilePlace place = tile_place(c, tile);
    __syncthreads();  // the previous contents have been read
    load_patch(c, x, place, patch);
    load_gradients<kPacked>(s, dy, place, first_output, out);
    __syncthreads();
    const auto mask_of = [&](int pixel) {  // for the outputs `pixel` and the next in the row
      const int col = place.col + pixel;
      return (col < s.out_width ? 0xffffu : 0u) | (col + 1 < s.out_width ? 0xffff0000u : 0u);
    };
    const std::uint32_t mask[2] = {mask_of(2 * t), mask_of(2 * t + 8)};
    for (int row = 0; row < kRows && place.row + row < s.out_height; ++row) {
      std::uint32_t a[kOutputRows][4];
#pragma unroll
      for (int m = 0; m < kOutputRows; ++m) {
        load_outputs(out + row * kCols * kOutPitch + m * 16, a[m]);
      }
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        std::uint32_t b[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const T* const from = patch + offset[n] + row * step_down + half * 8 * step_right;
          b[half] = word_of(from[0], from[step_right]) & mask[half];
        }
#pragma unroll
        for (int m = 0; m < kOutputRows; ++m) mma_16_bit<T>(sum[m][n], a[m], b);
      }
    }
  }
  parts += (std::int64_t{blockIdx.y} * gridDim.x + blockIdx.x) * kOutputs * c.factors;
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    const int factor = (warp + n * kWarps) * 8 + 2 * t;
    if (factor >= c.factors) continue;
#pragma unroll
    for (int m = 0; m < kOutputRows; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float pair[2] = {sum[m][n][2 * half], sum[m][n][2 * half + 1]};
        store<2>(parts + (m * 16 + half * 8 + g) * c.factors + factor, pair);
      }
    }
  }
}

// gradient [O, C, R, S] = or += the sum of the parts, in the order of their blocks.
__global__ void add_parts_kernel(WindowConv c, const float* parts, int blocks, float* gradient,
                                 bool accumulate) {
  const ConvShape& s = c.s;
  const auto i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);  // of [O, R, S C]
  if (i >= s.outputs * s.kernel_height * c.row_elems()) return;
  const int at = i % c.row_elems(), rest = i / c.row_elems(), row = rest % s.kernel_height,
            output = rest / s.kernel_height;
  const float* part = parts +
                      (std::int64_t{output / kOutputs} * blocks * kOutputs + output % kOutputs) * c.factors +
                      row * c.row_factors + at;
  float sum = 0.0f;
#pragma unroll 8
  for (int b = 0; b < blocks; ++b, part += kOutputs * c.factors) sum += *part;
  const int col = at / s.channels, channel = at % s.channels;
  float& to =
      gradient[((std::int64_t{output} * s.channels + channel) * s.kernel_height + row) * s.kernel_width +
               col];
  to = accumulate ? to + sum : sum;
}

}  // namespace

void window_conv_bwd_weight(const KernelContext& exec, const Conv2dBwdWeightArgs& args) {
  constexpr const char* kOp = "conv2d_bwd_weight";
  const WindowConv c = window_conv(args.x.shape, args.dweight.shape, args.dy.shape, args.geometry);
  const WindowTiles tiles(args.dweight.shape, args.geometry, args.dy.shape);
  const auto blocks = static_cast<int>(tiles.gradient_blocks(c.s.images, c.s.outputs));
  const Workspace parts(exec, static_cast<std::size_t>(tiles.gradient_bytes(c.s.images, c.s.outputs)));
  for_sixteen_bit_type(kOp, args.x.dtype, [&]<class T>(T) {
    const T* const dy = args.dy.as<T>();
    const bool packed = rows_are_packable(c.s.outputs, sizeof(T), {dy});
    dim3 grid = grid_of(blocks);
    grid.y = static_cast<unsigned>(tiles.output_tiles(c.s.outputs));
    const std::size_t bytes = out_bytes() + patch_bytes(c);
    const auto run = [&](auto* kernel) {
      allow_shared_bytes(kOp, kernel, bytes);
      launch(exec, kOp, grid, kWindowThreads, bytes, kernel, c, dy, args.x.as<T>(), parts.as<float>());
    };
    const auto run_tiles = [&]<int kTiles>(std::integral_constant<int, kTiles>) {
      packed ? run(window_bwd_weight_kernel<T, kTiles, true>)
             : run(window_bwd_weight_kernel<T, kTiles, false>);
    };
    const auto of_warp = ceil_div(c.factors / 8, kWarps);
    if (of_warp <= 2) {
      run_tiles(std::integral_constant<int, 2>{});
    } else if (of_warp <= 5) {
      run_tiles(std::integral_constant<int, 5>{});
    } else {
      run_tiles(std::integral_constant<int, 7>{});
    }
  });
  const std::int64_t n = args.dweight.num_elems();
  launch(exec, kOp, grid_of(ceil_div(n, kThreads)), kThreads, 0, add_parts_kernel, c, parts.as<float>(),
         blocks, args.dweight.as<float>(), args.mode == GradientMode::kAccumulate);
}

}  // namespace trireme::cuda
