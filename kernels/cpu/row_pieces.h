// The rows of the samples of a tensor, split into pieces that fit the cache, for norms that need statistics
// over many rows.
#pragma once

#include <algorithm>

#include "kernels/cpu/launch.h"

namespace trireme::cpu {

/// Splits the rows of each sample by shape alone. No piece holds rows of two samples. Has scratch memory to
/// convert 16-bit rows.
class RowPieces {
 public:
  /// `num_views` buffers a thread. With one sample, all rows of x are its rows.
  RowPieces(const KernelContext& exec, ConstTensorView x, int num_views, std::int64_t num_samples = 1)
      : samples(num_samples),
        cols(x.shape.dim(-1)),
        rows(cols == 0 || num_samples == 0 ? 0 : x.num_elems() / cols / num_samples),
        rows_of_piece(std::max<std::int64_t>(1, kPieceElems / std::max<std::int64_t>(1, cols))),
        count(ceil_div(rows, rows_of_piece)),
        exec_(exec),
        pitch_(x.dtype == DType::kFloat32 ? 0 : most_elems()),
        scratch_(exec, pitch_ * num_views) {}

  /// Runs body(piece, first row, rows, scratch) for all pieces of all samples. Pieces [i count, (i + 1)
  /// count) are of sample i. scratch(i) is the thread's buffer for view i; null for fp32.
  template <class Body>
  void for_each(const Body& body) const {
    for_each_piece(exec_, samples * count, samples * rows * cols, [&](std::int64_t piece) {
      const std::int64_t first = piece / count * rows + piece % count * rows_of_piece;
      float* mine = scratch_.mine();
      body(piece, first, rows_of(piece % count),
           [&](int view) { return mine != nullptr ? mine + view * pitch_ : nullptr; });
    });
  }
  /// Rows of piece `index` of a sample.
  std::int64_t rows_of(std::int64_t index) const {
    return std::min(rows_of_piece, rows - index * rows_of_piece);
  }
  /// Elements of the largest piece.
  std::int64_t most_elems() const { return std::min(rows, rows_of_piece) * cols; }

  const std::int64_t samples, cols;
  const std::int64_t rows;                  // of a sample
  const std::int64_t rows_of_piece, count;  // of the pieces of a sample

 private:
  static constexpr std::int64_t kPieceElems = 32768;

  const KernelContext& exec_;
  const std::int64_t pitch_;
  const ThreadScratch scratch_;
};

}  // namespace trireme::cpu
