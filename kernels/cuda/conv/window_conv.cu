#include "kernels/cuda/conv/window_conv.h"

#include <algorithm>

#include "kernels/cuda/conv/conv_shape.h"
#include "kernels/cuda/device/workspace.h"
#include "kernels/cuda/dynamic_shared.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/sixteen_bit_mma.cuh"
#include "kernels/cuda/tensor_cores.h"
#include "kernels/product_workspace.h"

namespace trireme::cuda {
namespace {

constexpr int kWarps = 4, kWindowThreads = kWarps * kWarp;
constexpr int kRows = WindowTiles::kRows, kCols = WindowTiles::kCols, kOutputs = WindowTiles::kOutputs;
constexpr int kDepth = 16;               // factors of an instruction
constexpr int kOutTiles = kOutputs / 8;  // of an instruction's outputs
constexpr int kOutPitch = kOutputs + 8;  // of a tile's outputs in shared memory: rows in other banks
constexpr int kForwardBlocks = 4 * 132;  // at once; the result does not depend on it
static_assert(kRows == 2 * kWarps && kCols == 16);

// 16 bytes: an access.
struct alignas(16) Words16 {
  std::uint32_t words[4];
};

// A convolution cut into tiles of kRows x kCols outputs.
struct WindowConv {
  ConvShape s;
  int row_factors, factors, patch_rows, pitch;  // see WindowTiles
  int tiles_high, tiles_wide, tiles;            // tiles: of all images

  __host__ __device__ int steps() const { return factors / kDepth; }
  __host__ __device__ int row_elems() const { return s.kernel_width * s.channels; }  // of a window
};

WindowConv window_conv(const Shape& x, const Shape& weight, const Shape& y, const ConvGeometry& geometry) {
  const WindowTiles tiles(weight, geometry, y);
  constexpr std::int64_t kMostLine = 0x7fffffff - 2 * WindowTiles::kMostPatch;
  TRIREME_CHECK(x[2] * x[3] <= kMostLine, "conv2d on cuda: a line of {} has too many elements",
                x.to_string());
  return {.s = conv_shape(x, weight, y, geometry),
          .row_factors = static_cast<int>(tiles.row_factors),
          .factors = static_cast<int>(tiles.factors),
          .patch_rows = static_cast<int>(tiles.patch_rows),
          .pitch = static_cast<int>(tiles.pitch),
          .tiles_high = static_cast<int>(tiles.tiles_high),
          .tiles_wide = static_cast<int>(tiles.tiles_wide),
          .tiles = static_cast<int>(y[0] * tiles.tiles_high * tiles.tiles_wide)};
}

// The first output of a tile.
struct TilePlace {
  int image, row, col;
};
__device__ inline TilePlace tile_place(const WindowConv& c, int tile) {
  const int wide = tile % c.tiles_wide, rest = tile / c.tiles_wide;
  return {.image = rest / c.tiles_high, .row = rest % c.tiles_high * kRows, .col = wide * kCols};
}

// patch[patch_rows, pitch]: what the tile's windows see, zeros beyond the image. By all threads, which have
// kHeldRows rows of kLine elements in flight.
template <class T>
__device__ void load_patch(const WindowConv& c, const T* x, const TilePlace& tile, T* patch) {
  constexpr int kHeldRows = 3, kHeldCols = 4, kLine = kHeldCols * kWarp;
  const ConvShape& s = c.s;
  const int top = tile.row * s.stride - s.padding, line_elems = s.width * s.channels,
            first = (tile.col * s.stride - s.padding) * s.channels;
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  x += std::int64_t{tile.image} * s.height * line_elems;
  for (int begin = 0; begin < c.pitch; begin += kLine) {
    for (int row = warp; row < c.patch_rows; row += kHeldRows * kWarps) {
      T held[kHeldRows][kHeldCols];
#pragma unroll
      for (int r = 0; r < kHeldRows; ++r) {
        const int h = top + row + r * kWarps;
        const T* const line = x + std::int64_t{h} * line_elems;
#pragma unroll
        for (int i = 0; i < kHeldCols; ++i) {
          const int at = first + begin + i * kWarp + lane;
          const bool inside = h >= 0 && h < s.height && at >= 0 && at < line_elems;
          held[r][i] = inside ? line[at] : from_float<T>(0.0f);
        }
      }
#pragma unroll
      for (int r = 0; r < kHeldRows; ++r) {
        const int to = row + r * kWarps;
#pragma unroll
        for (int i = 0; i < kHeldCols; ++i) {
          const int col = begin + i * kWarp + lane;
          if (to < c.patch_rows && col < c.pitch) patch[to * c.pitch + col] = held[r][i];
        }
      }
    }
  }
}

// Where factor `k` of a window lies in the patch, from the window's first element on; 0 for those beyond.
__device__ inline int factor_offset(const WindowConv& c, int k) {
  const int row = k / c.row_factors;
  return row < c.s.kernel_height ? row * c.pitch + k % c.row_factors : 0;
}
// How many of the factors k and k + 1, k even, the window has, as a mask of a word.
__device__ inline std::uint32_t factor_mask(const WindowConv& c, int k) {
  if (k / c.row_factors >= c.s.kernel_height) return 0;
  return k % c.row_factors + 1 < c.row_elems() ? 0xffffffffu : 0xffffu;
}

// Two neighbouring elements; from an even one where kEven.
template <bool kEven, class T>
__device__ inline std::uint32_t pair_at(const T* patch, int at) {
  if constexpr (!kEven) return word_of(patch[at], patch[at + 1]);
  const Pack<T, 2> pair = load_pack<2>(patch + at);
  return word_of(pair.elems[0], pair.elems[1]);
}

// fragments[O / 64, steps, 4, lanes, 8]: for each instruction's depth and two of its tiles of outputs the
// words of `b` of a lane, 16 bytes at a time; zeros beyond the weight [O, C, R, S].
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

std::size_t patch_bytes(const WindowConv& c) {
  return static_cast<std::size_t>(c.patch_rows * c.pitch + 7) / 8 * 8 * 2;
}
std::size_t out_bytes() {
  return std::size_t{kRows * kCols} * kOutPitch * 2;
}
std::size_t fwd_shared_bytes(const WindowConv& c) {
  return out_bytes() + patch_bytes(c) +
         static_cast<std::size_t>(c.steps()) *
             (kOutTiles / 2 * kWarp * sizeof(Words16) + kDepth / 2 * sizeof(FactorPair));
}

// y = a warp's two rows of a tile, from `own` [2, kCols, kOutPitch].
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

// y of kOutputs outputs a blockIdx.y, every gridDim.x-th tile a block. A warp has two rows of a tile.
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
    __syncthreads();  // the patch before has been read
    load_patch(c, x, place, patch);
    __syncthreads();
    if (place.row + 2 * warp >= s.out_height) continue;  // none of the warp's
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
    // Through shared memory, so that neighbouring threads write neighbouring outputs.
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

// a: 16 outputs by 16 pixels, which lie as [pixels, kOutPitch].
template <class T>
__device__ inline void load_outputs(const T* tile, std::uint32_t (&a)[4]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 750
  // Lanes 8 i to 8 i + 7 name the rows of the words a[i], which are transposed.
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

// out[pixels, kOutPitch] = dy of the tile from `first_output` on, zeros beyond. By all threads; kPacked: 16
// bytes at a time.
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

// parts[O / 64, blocks, 64, factors]: dy^T times the windows of every gridDim.x-th tile. A warp has every
// kWarps-th 8 factors, kTiles of them.
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
    __syncthreads();  // what was there has been read
    load_patch(c, x, place, patch);
    load_gradients<kPacked>(s, dy, place, first_output, out);
    __syncthreads();
    const auto mask_of = [&](int pixel) {  // of the outputs `pixel` and the next of a row
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

// gradient [O, C, R, S] = or += the parts' sum, in the order of their blocks.
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

template <class F>
void for_sixteen_bit_type(const char* op, DType dtype, F run) {
  if (dtype == DType::kFloat16) return run(__half{});
  if (dtype == DType::kBFloat16) return run(__nv_bfloat16{});
  throw Error(ErrorCode::kUnsupported, "{} in tiles of windows on cuda does not take {}", op, name(dtype));
}

}  // namespace

bool suits_window_tiles(const KernelContext& exec, const Shape& weight, const ConvGeometry& geometry,
                        DType dtype) {
  return takes_window_tiles(weight, geometry, dtype) && has_tensor_cores(exec);
}

void window_conv_fwd(const KernelContext& exec, const Conv2dFwdArgs& args) {
  constexpr const char* kOp = "conv2d_fwd";
  const WindowConv c = window_conv(args.x.shape, args.weight.shape, args.y.shape, args.geometry);
  const std::int64_t output_tiles = ceil_div(c.s.outputs, kOutputs), n = output_tiles * kOutputs * c.factors;
  const Workspace fragments(exec, static_cast<std::size_t>(n * size_bytes(args.x.dtype)));
  for_sixteen_bit_type(kOp, args.x.dtype, [&]<class T>(T) {
    launch(exec, kOp, grid_of(ceil_div(n, kThreads)), kThreads, 0, pack_fragments_kernel<T>, c,
           args.weight.as<T>(), fragments.as<T>(), n);
    T* const y = args.y.as<T>();
    const bool packed = rows_are_packable(c.s.outputs, sizeof(T), {y});
    dim3 grid = grid_of(std::min(c.tiles, kForwardBlocks));
    grid.y = static_cast<unsigned>(output_tiles);
    const auto run = [&](auto* kernel) {
      allow_shared_bytes(kOp, kernel, fwd_shared_bytes(c));
      launch(exec, kOp, grid, kWindowThreads, fwd_shared_bytes(c), kernel, c, args.x.as<T>(),
             fragments.as<const Words16>(), args.bias.as<T>(), y, packed);
    };
    const bool is_even = c.s.stride * c.s.channels % 2 == 0;
    is_even ? run(window_fwd_kernel<T, true>) : run(window_fwd_kernel<T, false>);
  });
}

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
