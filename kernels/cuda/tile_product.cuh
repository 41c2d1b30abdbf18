// A product of implicit matrices. A block computes one tile of the product; operand objects compute the
// address of each element. The sum over depth has a fixed order, independent of the grid.
#pragma once

#include "kernels/cuda/launch.cuh"

namespace trireme::cuda {

inline constexpr int kProductTile = 64;   // rows and columns of a tile
inline constexpr int kProductDepth = 16;  // depth held in shared memory at a time
inline constexpr int kProductSide = 4;    // a thread computes 4 x 4 elements
static_assert(kProductTile / kProductSide * (kProductTile / kProductSide) == kThreads);

using ProductTileMemory = float[kProductDepth][kProductTile + 4];

/// Reads tiles of an operand. Elements are (line, depth); lines are rows of the left operand or columns of
/// the right one. Operand has:
///   kAlongDepth         true if memory is contiguous along depth, false if along lines;
///   Line line(int)      the part of an element's address that its line decides, for lines in range;
///   Depth depth(int)    the part that its depth decides;
///   float at(Line, Depth)
template <class Operand>
class TileReader {
 public:
  __device__ TileReader(const Operand& operand, int first_line, int num_lines) : operand_(operand) {
#pragma unroll
    for (int q = 0; q < kOwnLines; ++q) {
      const int line = first_line + line_in_tile(q);
      in_range_[q] = line < num_lines;
      if (in_range_[q]) lines_[q] = operand_.line(line);
    }
  }

  /// Reads the thread's elements of depths [first, last), zeros beyond. The range may exceed a tile's depth;
  /// the rest is not read.
  __device__ void fetch(int first, int last) {
#pragma unroll
    for (int q = 0; q < kElems; ++q) {
      const int own = Operand::kAlongDepth ? q : 0, depth = first + depth_in_tile(q);
      values_[q] = 0.0f;
      if (in_range_[own] && depth < last) values_[q] = operand_.at(lines_[own], operand_.depth(depth));
    }
  }

  __device__ void put(ProductTileMemory& tile) const {
#pragma unroll
    for (int q = 0; q < kElems; ++q) tile[depth_in_tile(q)][line_in_tile(q)] = values_[q];
  }

 private:
  static constexpr int kElems = kProductTile * kProductDepth / kThreads;
  static constexpr int kOwnLines = Operand::kAlongDepth ? kElems : 1;

  __device__ static int line_in_tile(int q) {
    const int thread = static_cast<int>(threadIdx.x);
    return Operand::kAlongDepth ? thread / kProductDepth + kThreads / kProductDepth * q
                                : thread % kProductTile;
  }
  __device__ static int depth_in_tile(int q) {
    const int thread = static_cast<int>(threadIdx.x);
    return Operand::kAlongDepth ? thread % kProductDepth
                                : thread / kProductTile + kThreads / kProductTile * q;
  }

  const Operand& operand_;
  typename Operand::Line lines_[kOwnLines] = {};
  bool in_range_[kOwnLines] = {};
  float values_[kElems] = {};
};

/// The part of a product that one block computes.
struct ProductPart {
  int first_row, rows;  // rows of the tile; rows of the whole product
  int first_col, cols;
  int first_depth, last_depth;
};

/// Calls write(row, col, sum over depth of left.at * right.at) for the tile's elements inside the product.
/// All kThreads threads of the block must call, at most once per kernel.
template <class Left, class Right, class Write>
__device__ inline void tile_product(const ProductPart& part, const Left& left, const Right& right,
                                    Write write) {
  __shared__ ProductTileMemory left_tile;
  __shared__ ProductTileMemory right_tile;
  TileReader<Left> left_reader(left, part.first_row, part.rows);
  TileReader<Right> right_reader(right, part.first_col, part.cols);
  constexpr int kSide = kProductTile / kProductSide;
  const int row = static_cast<int>(threadIdx.x) / kSide * kProductSide,
            col = static_cast<int>(threadIdx.x) % kSide * kProductSide;
  float sums[kProductSide][kProductSide] = {};
  left_reader.fetch(part.first_depth, part.last_depth);
  right_reader.fetch(part.first_depth, part.last_depth);
  for (int depth = part.first_depth; depth < part.last_depth; depth += kProductDepth) {
    __syncthreads();  // the previous tiles have been read
    left_reader.put(left_tile);
    right_reader.put(right_tile);
    __syncthreads();
    // Loads the next tiles while the current ones are multiplied.
    left_reader.fetch(depth + kProductDepth, part.last_depth);
    right_reader.fetch(depth + kProductDepth, part.last_depth);
#pragma unroll
    for (int k = 0; k < kProductDepth; ++k) {
#pragma unroll
      for (int i = 0; i < kProductSide; ++i) {
#pragma unroll
        for (int j = 0; j < kProductSide; ++j) {
          sums[i][j] += left_tile[k][row + i] * right_tile[k][col + j];
        }
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kProductSide; ++i) {
#pragma unroll
    for (int j = 0; j < kProductSide; ++j) {
      const int to_row = part.first_row + row + i, to_col = part.first_col + col + j;
      if (to_row < part.rows && to_col < part.cols) write(to_row, to_col, sums[i][j]);
    }
  }
}

}  // namespace trireme::cuda
