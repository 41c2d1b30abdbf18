// Copies of fp32 operands that oneDNN's sgemm is slow to read where they lie.
//
// [Note: operand copies] sgemm reads the operands of a small product, or tile, where they lie. It then makes
// 135 to 148 of 160 GFLOP/s (measured: AVX-512 at 2.5 GHz, 1 MiB of L2), but 110 to 125 with a transposed b,
// and 70 to 120 where the rows that it reads along k, of a transposed a or of the b beside it, are a multiple
// of 2 KiB apart: those fall into few sets of the caches. So
//  * of a small transposed b, the threads first write the transpose, once for all tiles;
//  * with rows at such distances a tile takes 256 k at a time, which still fit;
//  * a large product of a transposed a (the gradient of a weight) goes through panels ([Note: panels] in
//    matmul_panels.cc), which pack rows as they lie: for a weight of [50257, 768], 200 GFLOP/s on a machine
//    of 300 became 230, and the gradient of its bias is found meanwhile;
//  * so does one that is deeper than wide, if it has few rows or a transposed b (1.0 to 1.25 times as quick;
//    others of its kind 0.85 to 1.0 times);
//  * a small product of a transposed a (the gradient of a small weight) takes 64 to 256 k at a time, all of
//    its tiles before the next: what it reads of a lies together then, where a tile alone would read a part
//    of all of a's rows, each out of the reach of prefetching (75 GFLOP/s became 110). Copying the part
//    aside, or computing the transpose of the product, was no quicker.
// All other products are left alone, large ones because sgemm itself copies there: for a wide one it packs a
// once, and panels again for every tile (0.9 to 0.95 times as quick). The shape alone decides,
// so the bits depend on nothing else.
#pragma once

#include "kernels/cpu/launch.h"
#include "kernels/cpu/matmul/matmul_tiling.h"

namespace trireme::cpu {

/// A matrix in memory and how a product reads it.
struct Operand {
  const float* data;
  std::int64_t rows, cols;  // as they lie
  std::int64_t pitch;       // floats from one row to the next
  bool transposed;
};

enum class OperandCopies {
  kNone,
  kTransposedB,  // a TransposedCopy of b
  kShortRanges,  // none, but kShortRange of k at a time
  kDepthFirst,   // none, but shallow_range(e) of k at a time, all tiles before the next
  kPanels,       // matmul_by_panels
};

inline constexpr std::int64_t kShortRange = 256;

/// The part of k that OperandCopies::kDepthFirst takes at a time: 128 KiB of a and 256 KiB of b, within
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
