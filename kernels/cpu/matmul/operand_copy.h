// Copies of fp32 operands that oneDNN's sgemm reads slowly in place.
//
// [Note: operand copies] sgemm reads the operands of a small product, or tile, in place. It then reaches 135
// to 148 of 160 GFLOP/s (measured: AVX-512 at 2.5 GHz, 1 MiB of L2). With a transposed b it reaches 110 to
// 125. It reaches 70 to 120 if the rows along k, of a transposed a or of the b beside it, are a multiple of 2
// KiB apart, because they map to few cache sets. Therefore:
//  * For a small transposed b, the threads first write the transpose, once for all tiles.
//  * With rows at such distances, a tile processes 256 k at a time, which still fit the cache.
//  * A large product of a transposed a (a weight gradient) uses panels ([Note: panels] in matmul_panels.cc),
//    which pack rows in memory order. For a weight of [50257, 768], 200 GFLOP/s on a machine of 300 became
//    230. The bias gradient is computed in the same pass.
//  * A product that is deeper than wide also uses panels, if it has few rows or a transposed b (1.0 to 1.25
//    times as fast). Others of this kind do not (0.85 to 1.0 times).
//  * A small product of a transposed a (the gradient of a small weight) processes 64 to 256 k at a time, all
//    tiles before the next range. Its reads of a are then contiguous. A tile on its own would read a part of
//    every row of a, beyond the reach of prefetching (75 GFLOP/s became 110). Copying the part, or computing
//    the transpose of the product, was no faster.
// All other products are left to sgemm, which copies large operands itself. For a wide product it packs a
// once, where panels pack it for every tile (0.9 to 0.95 times as fast). The shape alone decides, so the bits
// depend on nothing else.
#pragma once

#include "kernels/cpu/launch.h"
#include "kernels/cpu/matmul/matmul_tiling.h"

namespace trireme::cpu {

/// A matrix in memory, and whether a product reads it transposed.
struct Operand {
  const float* data;
  std::int64_t rows, cols;  // as stored
  std::int64_t pitch;       // floats between rows
  bool transposed;
};

enum class OperandCopies {
  kNone,
  kTransposedB,  // a TransposedCopy of b
  kShortRanges,  // no copy; kShortRange of k at a time
  kDepthFirst,   // no copy; shallow_range(e) of k at a time, all tiles before the next
  kPanels,       // matmul_by_panels
};

inline constexpr std::int64_t kShortRange = 256;

/// The range of k that OperandCopies::kDepthFirst processes at a time: 128 KiB of a and 256 KiB of b, within
/// limits.
inline std::int64_t shallow_range(const Extents& e) {
  constexpr std::int64_t kFloats = 32 << 10, kLeast = 64, kMost = 256;
  return std::clamp(std::min(kFloats / e.m, 2 * kFloats / e.n) / 16 * 16, kLeast, kMost);
}

/// See [Note: operand copies].
OperandCopies copies_for(const Operand& a, const Operand& b, const Extents& e);

/// The transpose of an operand, in scratch memory of the call.
class TransposedCopy {
 public:
  TransposedCopy(const KernelContext& exec, const Operand& from);
  const Operand& operand() const { return operand_; }

 private:
  Workspace memory_;
  Operand operand_;
};

}  // namespace trireme::cpu
