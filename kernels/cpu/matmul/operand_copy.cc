#include "kernels/cpu/matmul/operand_copy.h"

#include "kernels/cpu/numerics.h"

namespace trireme::cpu {
namespace {

constexpr std::int64_t kLine = 16;  // floats of a cache line

// Copies up to this size request exactly this many floats, so that the allocator returns the block still in
// cache.
constexpr std::int64_t kSharedCopy = 128 << 10;

// One cache line more than a row needs, so that the distance of rows is not a power of two.
std::int64_t copy_pitch(std::int64_t cols) {
  return ceil_div(cols, kLine) * kLine + kLine;
}

}  // namespace

OperandCopies copies_for(const Operand& a, const Operand& b, const Extents& e) {
  constexpr std::int64_t kMaxTransposed = 512 << 10, kMinRows = 192;     // floats; rows
  constexpr std::int64_t kSmallProduct = 128 << 10, kMaxShallow = 2048;  // floats; k
  constexpr std::int64_t kWorthPacking = 256 << 20, kFewRows = 1024;     // multiply-adds; rows
  constexpr std::int64_t kBadPitch = 512, kMinCols = 512;                // floats; columns
  const bool worth_packing = e.m * e.n * e.k >= kWorthPacking;
  if (!a.transposed) {
    const bool few_rows = e.m <= kFewRows && e.n >= kMinCols;
    if (worth_packing && e.k >= 2 * e.n && (b.transposed || few_rows)) return OperandCopies::kPanels;
    const bool pays = b.transposed && e.n * e.k <= kMaxTransposed && e.m >= kMinRows;
    return pays ? OperandCopies::kTransposedB : OperandCopies::kNone;
  }
  if (e.m * e.n <= kSmallProduct && e.k > shallow_range(e) && e.k <= kMaxShallow) {
    return OperandCopies::kDepthFirst;
  }
  if (e.k <= kShortRange) return OperandCopies::kNone;
  if (worth_packing) return OperandCopies::kPanels;
  const bool conflicts = a.pitch % kBadPitch == 0 || (!b.transposed && b.pitch % kBadPitch == 0);
  return conflicts ? OperandCopies::kShortRanges : OperandCopies::kNone;
}

TransposedCopy::TransposedCopy(const KernelContext& exec, const Operand& from)
    : memory_(exec, std::max(kSharedCopy, from.cols * copy_pitch(from.rows))),
      operand_{.data = memory_.data(),
               .rows = from.cols,
               .cols = from.rows,
               .pitch = copy_pitch(from.rows),
               .transposed = !from.transposed} {
  constexpr std::int64_t kRows = 2 * kLine;
  for_each_piece(exec, ceil_div(from.rows, kRows), from.rows * from.cols, [&](std::int64_t piece) {
    const std::int64_t first = piece * kRows;
    numerics().cast->read_transposed({.x = from.data + first * from.pitch,
                                      .element = Element::kFp32,
                                      .x_pitch = from.pitch,
                                      .rows = std::min(kRows, from.rows - first),
                                      .cols = from.cols,
                                      .y = memory_.data() + first,
                                      .y_pitch = operand_.pitch});
  });
}

}  // namespace trireme::cpu
