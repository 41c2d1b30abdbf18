// Products of the steps of a recurrence: each multiplies the state before the step with one weight.
//
// [Note: recurrent products] A step has few rows, one per sample, so it takes as long as reading the weight.
// The weight is packed once for all steps. A thread has the same units in every step. It computes them and
// packs them for the next step, so a step needs one barrier, and the thread's part of the weight stays in its
// cache if it fits. If not, visiting the pieces in alternating order finds the last of them in cache, and
// products prefetch the strip of the next. The packed state has two buffers, because other threads still read
// the state before the step.
//
// The depth alone decides how the sum of an element is split ([Note: panels]). So neither the number of
// threads nor the batch size changes a bit.
#pragma once

#include <omp.h>

#include <array>
#include <vector>

#include "kernels/cpu/launch.h"
#include "kernels/cpu/matmul/packed_operand.h"

namespace trireme::cpu {

/// Column unit + g * units of the weight, for g < groups, belongs to `unit`.
struct RecurrentWeight {
  PackedOperand operand;
  std::int64_t depth;  // rows: elements of the state
  std::int64_t units;
  std::int64_t groups;
};

/// Neighbouring units that are computed at a time.
struct UnitPiece {
  std::int64_t first, count;
  std::int64_t packed_at;  // start of their columns in the packed weight
};
/// The pieces of each thread.
using UnitRanges = std::vector<std::vector<UnitPiece>>;

class RecurrentProduct {
 public:
  static constexpr std::int64_t kUnits = 48;  // most of a piece; a multiple of every col_strip

  RecurrentProduct(const KernelContext& exec, const RecurrentWeight& weight, std::int64_t rows);

  /// Floats that multiply() writes.
  std::int64_t sums() const { return rows_ * weight_.groups * kUnits; }

  void pack_weight(const UnitPiece& piece) const;

  /// Packs elements [first, first + count) of the state that step `step` reads. The first of them of the
  /// first row is at state.data; rows are state.pitch apart.
  void pack_state(std::int64_t step, const PackedOperand& state, std::int64_t first,
                  std::int64_t count) const;

  /// sums[row][group * kUnits + unit - piece.first] = the product of the state of step `step`.
  void multiply(std::int64_t step, const UnitPiece& piece, float* sums) const;

  /// Runs start(piece) for all pieces, then body(step, piece) for all pieces and for each step in order, on
  /// the rank's threads. All pieces of a step have finished when the next step begins.
  template <class Start, class Body>
  void for_each_step(const KernelContext& exec, std::int64_t steps, const Start& start,
                     const Body& body) const {
    const std::int64_t work = rows_ * weight_.depth * weight_.groups * weight_.units;
#pragma omp parallel num_threads(exec.num_threads) if (work >= kSerialWork)
    {
      for_my_pieces(false, start);
      for (std::int64_t step = 0; step < steps; ++step) {
#pragma omp barrier
        for_my_pieces(step % 2 == 0, [&](const UnitPiece& piece) { body(step, piece); });
      }
    }
  }

 private:
  /// In backward order, the pieces that a thread visited last come first.
  template <class Body>
  void for_my_pieces(bool backward, const Body& body) const {
    const auto ranges = static_cast<int>(ranges_.size());
    for (int range = omp_get_thread_num(); range < ranges; range += omp_get_num_threads()) {
      const std::vector<UnitPiece>& pieces = ranges_[static_cast<std::size_t>(range)];
      for (std::size_t i = 0; i < pieces.size(); ++i) body(pieces[backward ? pieces.size() - 1 - i : i]);
    }
  }

  const GemmNumerics& gemm_;
  const RecurrentWeight weight_;
  const std::int64_t rows_, strip_rows_;  // of the state; in whole strips
  const Depths depths_;
  const UnitRanges ranges_;
  const Workspace packed_weight_;
  const std::array<Workspace, 2> packed_states_;
};

}  // namespace trireme::cpu
