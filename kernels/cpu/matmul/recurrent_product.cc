#include "kernels/cpu/matmul/recurrent_product.h"

namespace trireme::cpu {
namespace {

std::int64_t in_strips(std::int64_t lines, std::int64_t strip) {
  return ceil_div(lines, strip) * strip;
}

Depths depths_of(const RecurrentWeight& weight) {
  return depths_of(*numerics().gemm, weight.depth);
}

/// Floats of the packed columns of `units` units of `groups` groups, for `depth` of k.
std::int64_t packed_floats(std::int64_t units, std::int64_t groups, std::int64_t depth) {
  return in_strips(units, numerics().gemm->col_strip) * groups * depth;
}

/// With `once`, each thread has room for one part, else there is room for the whole weight.
UnitRanges ranges_of(const RecurrentWeight& weight, int num_threads, bool once) {
  constexpr std::int64_t kLine = 16;  // floats of a cache line
  UnitRanges ranges;
  std::int64_t packed_at = 0;
  const std::int64_t range = in_strips(ceil_div(weight.units, num_threads), kLine);
  for (std::int64_t first = 0; first < weight.units; first += range) {
    std::vector<UnitPiece>& pieces = ranges.emplace_back();
    const std::int64_t end = std::min(weight.units, first + range);
    for (std::int64_t unit = first; unit < end; unit += RecurrentProduct::kUnits) {
      const std::int64_t count = std::min(RecurrentProduct::kUnits, end - unit);
      pieces.push_back({unit, count, packed_at});
      if (!once) packed_at += packed_floats(count, weight.groups, weight.depth);
    }
    if (once) packed_at += packed_floats(RecurrentProduct::kUnits, 1, depths_of(weight).depth);
  }
  return ranges;
}

std::int64_t packed_floats(const RecurrentWeight& weight, const UnitRanges& ranges, bool once) {
  const UnitPiece& last = ranges.back().back();
  if (once) return last.packed_at + packed_floats(RecurrentProduct::kUnits, 1, depths_of(weight).depth);
  return last.packed_at + packed_floats(last.count, weight.groups, weight.depth);
}

}  // namespace

RecurrentProduct::RecurrentProduct(const KernelContext& exec, const RecurrentWeight& weight,
                                   std::int64_t rows, std::int64_t products)
    : gemm_(*numerics().gemm),
      weight_(weight),
      rows_(rows),
      strip_rows_(in_strips(rows, gemm_.row_strip)),
      depths_(depths_of(weight)),
      once_(products <= 1),
      ranges_(ranges_of(weight, exec.num_threads, once_)),
      packed_weight_(exec, packed_floats(weight, ranges_, once_)),
      packed_states_{Workspace(exec, strip_rows_ * weight.depth),
                     Workspace(exec, strip_rows_ * weight.depth)} {}

template <class Body>
void RecurrentProduct::for_each_part(const UnitPiece& piece, const Body& body) const {
  float* packed = packed_weight_.data() + piece.packed_at;
  for (std::int64_t k = 0; k < weight_.depth; k += depths_.depth) {
    const std::int64_t depth = std::min(depths_.depth, weight_.depth - k);
    for (std::int64_t group = 0; group < weight_.groups; ++group) {
      body(group, k, depth, packed);
      if (!once_) packed += packed_floats(piece.count, 1, depth);
    }
  }
}

void RecurrentProduct::pack_part(const UnitPiece& piece, std::int64_t group, std::int64_t k,
                                 std::int64_t depth, float* packed) const {
  gemm_.pack_b(weight_.operand.strips(group * weight_.units + piece.first, piece.count, k, depth, packed));
}

void RecurrentProduct::pack_weight(const UnitPiece& piece) const {
  if (once_) return;
  for_each_part(piece, [&](std::int64_t group, std::int64_t k, std::int64_t depth, float* packed) {
    pack_part(piece, group, k, depth, packed);
  });
}

void RecurrentProduct::pack_state(std::int64_t step, const PackedOperand& state, std::int64_t first,
                                  std::int64_t count) const {
  float* const packed = packed_states_[step % 2].data();
  for (std::int64_t at = first; at < first + count;) {
    const std::int64_t k = at / depths_.depth * depths_.depth;
    const std::int64_t depth = std::min(depths_.depth, weight_.depth - k);
    const std::int64_t now = std::min(first + count, k + depth) - at;
    StripCopy copy =
        state.strips(0, rows_, at - first, now, packed + strip_rows_ * k + (at - k) * gemm_.row_strip);
    copy.strip_depth = depth;
    gemm_.pack_a(copy);
    at += now;
  }
}

void RecurrentProduct::multiply(std::int64_t step, const UnitPiece& piece, float* sums) const {
  const float* const state = packed_states_[step % 2].data();
  for_each_part(piece, [&](std::int64_t group, std::int64_t k, std::int64_t depth, float* packed) {
    if (once_) pack_part(piece, group, k, depth, packed);
    gemm_.multiply({.a = state + strip_rows_ * k,
                    .b = packed,
                    .c = sums + group * kUnits,
                    .rows = rows_,
                    .cols = piece.count,
                    .depth = depth,
                    .c_pitch = weight_.groups * kUnits,
                    .accumulate = k > 0,
                    .prefetch_b = !once_});
  });
}

}  // namespace trireme::cpu
