// Shared by forward and weight gradient of convolutions in tiles of windows: see
// [Note: windows on tensor cores].
#pragma once

#include "kernels/cuda/conv/conv_shape.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/pack.cuh"
#include "kernels/product_workspace.h"

namespace trireme::cuda {

inline constexpr int kWarps = 4, kWindowThreads = kWarps * kWarp;
inline constexpr int kRows = WindowTiles::kRows, kCols = WindowTiles::kCols, kOutputs = WindowTiles::kOutputs;
inline constexpr int kDepth = 16;               // factors of an instruction
inline constexpr int kOutTiles = kOutputs / 8;  // of 8 outputs, one instruction each
inline constexpr int kOutPitch = kOutputs + 8;  // row length in shared memory, without bank conflicts
static_assert(kRows == 2 * kWarps && kCols == 16);

// One 16-byte access.
struct alignas(16) Words16 {
  std::uint32_t words[4];
};

// A convolution split into tiles of kRows x kCols outputs.
struct WindowConv {
  ConvShape s;
  int row_factors, factors, patch_rows, pitch;  // see WindowTiles
  int tiles_high, tiles_wide, tiles;            // tiles: of all images

  __host__ __device__ int steps() const { return factors / kDepth; }
  __host__ __device__ int row_elems() const { return s.kernel_width * s.channels; }  // of a window
};

inline WindowConv window_conv(const Shape& x, const Shape& weight, const Shape& y,
                              const ConvGeometry& geometry) {
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

// The position of a tile's first output.
struct TilePlace {
  int image, row, col;
};
__device__ inline TilePlace tile_place(const WindowConv& c, int tile) {
  const int wide = tile % c.tiles_wide, rest = tile / c.tiles_wide;
  return {.image = rest / c.tiles_high, .row = rest % c.tiles_high * kRows, .col = wide * kCols};
}

// patch[patch_rows, pitch]: the pixels that the tile's windows read, zeros beyond the image. Called by all
// threads. Each warp keeps kHeldRows rows of kLine elements in flight.
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

// The offset of factor `k` of a window in the patch, from the window's first element; 0 for padding factors.
__device__ inline int factor_offset(const WindowConv& c, int k) {
  const int row = k / c.row_factors;
  return row < c.s.kernel_height ? row * c.pitch + k % c.row_factors : 0;
}
inline std::size_t patch_bytes(const WindowConv& c) {
  return static_cast<std::size_t>(c.patch_rows * c.pitch + 7) / 8 * 8 * 2;
}
inline std::size_t out_bytes() {
  return std::size_t{kRows * kCols} * kOutPitch * 2;
}
template <class F>
void for_sixteen_bit_type(const char* op, DType dtype, F run) {
  if (dtype == DType::kFloat16) return run(__half{});
  if (dtype == DType::kBFloat16) return run(__nv_bfloat16{});
  throw Error(ErrorCode::kUnsupported, "{} in tiles of windows on cuda does not take {}", op, name(dtype));
}

}  // namespace trireme::cuda
