// [Note: panels] A tile of the output is a sum over blocks of K. For each block, the required rows and
// columns are packed into strips in the order in which register tiles read them (isa/gemm.cc). Packing
// includes the conversion, so there is never a full fp32 copy of an operand, and the scratch memory does not
// grow with the product. b is packed for the whole tile. a is packed some rows at a time; these stay in the
// L2 cache while all of b is multiplied with them. The sum is fp32, in `d` itself if that is fp32. A 16-bit
// result is rounded once, after the epilogue. K alone decides how an element's sum is split. So the tiles may
// depend on the number of threads without changing a bit.
#include "kernels/cpu/matmul/matmul_panels.h"

#include "kernels/cpu/convert.h"
#include "kernels/cpu/matmul/bias_grad.h"
#include "kernels/cpu/matmul/matmul_start.h"
#include "kernels/cpu/matmul/packed_operand.h"
#include "kernels/cpu/numerics.h"

namespace trireme::cpu {
namespace {

// Measured on AVX-512 with 1 MiB of L2: faster than all tiles of 384 to 3072 rows, depths of 128 to 2048 and
// blocks of 48 to 768 rows that were tried. Needs at most 7 MiB of scratch per thread.
constexpr TileLimits kTileLimits{.rows = 1536, .cols = 768};
constexpr std::int64_t kBlockRows = 192;

class PanelProduct {
 public:
  PanelProduct(const KernelContext& exec, const MatmulArgs& args, const Extents& e)
      : args_(args),
        e_(e),
        a_(packed_operand(args.a, args.math, args.transpose_a == Transpose::kNo)),
        b_(packed_operand(args.b, args.math, args.transpose_b == Transpose::kYes)),
        gemm_(gemm_for(numerics(), a_.element)),
        tiling_(even_tiling(gemm_, e, kTileLimits, exec.num_threads)),
        depths_(depths_of(gemm_, e.k)),
        a_strips_(exec, words_of(gemm_, depths_.depth) * std::min(kBlockRows, tiling_.tile_rows)),
        b_strips_(exec, words_of(gemm_, depths_.depth) * tiling_.tile_cols),
        sums_(exec, in_place() ? 0 : tiling_.tile_rows * tiling_.tile_cols),
        rows_(exec, 3 * tiling_.tile_cols) {}

  void run(const KernelContext& exec) const {
    for_each_tile(exec, e_, tiling_, [&](const Tile& t) {
      compute(t);
      return dnnl_success;
    });
  }

 private:
  bool sums_bias() const { return wants_bias_grad(args_) && args_.a.dtype == DType::kFloat32; }

  // True if the sum of a tile can be computed directly in d.
  bool in_place() const {
    return args_.d.dtype == DType::kFloat32 && (!args_.residual.defined() || starts_from_residual(args_));
  }

  void compute(const Tile& t) const {
    const std::int64_t pitch = in_place() ? e_.n : t.cols;
    float* sum = in_place() ? args_.d.as<float>() + t.row * e_.n + t.col : sums_.mine();
    const bool starts = starts_from_residual(args_);
    if (starts) start_tile(args_, t, e_.n, sum);
    const bool adds_d = in_place() && args_.mode == GradientMode::kAccumulate;
    std::int64_t first = 0;
    do {  // at least once, even if K is 0
      const std::int64_t depth = std::min(depths_.depth, e_.k - first);
      add_block(t, {.first = first, .depth = depth, .accumulate = first > 0 || starts || adds_d}, sum, pitch);
      first += depth;
    } while (first < e_.k);
  }

  /// A range of k, and whether its product is added to the sum.
  struct Block {
    std::int64_t first, depth;
    bool accumulate;
  };

  // sum = op(a) op(b) over a range of k, or sum += that. After the last range, rows are finished while they
  // are in cache.
  void add_block(const Tile& t, const Block& block, float* sum, std::int64_t pitch) const {
    const auto [first, depth, accumulate] = block;
    float *const a = a_strips_.mine(), *const b = b_strips_.mine();
    gemm_.pack_b(b_.strips(t.col, t.cols, first, depth, b));
    const bool finishes = first + depth == e_.k && !starts_from_residual(args_);
    for (std::int64_t row = 0; row < t.rows; row += kBlockRows) {
      const std::int64_t rows = std::min(kBlockRows, t.rows - row);
      if (sums_bias() && t.col == 0) add_bias_grad(args_, first, depth, t.row + row, rows);
      gemm_.pack_a(a_.strips(t.row + row, rows, first, depth, a));
      gemm_.multiply({.a = a,
                      .b = b,
                      .c = sum + row * pitch,
                      .rows = rows,
                      .cols = t.cols,
                      .depth = depth,
                      .c_pitch = pitch,
                      .accumulate = accumulate});
      for (std::int64_t i = row; finishes && i < row + rows; ++i) finish_row(t, t.row + i, sum + i * pitch);
    }
  }

  // Finishes row `row` of the tile: the epilogue, then the single rounding.
  void finish_row(const Tile& t, std::int64_t row, float* sum) const {
    const std::int64_t at = row * e_.n + t.col;
    float* const buffers = rows_.mine();
    float *const bias = buffers, *const pre = bias + t.cols, *const residual = pre + t.cols;
    // With kAccumulate, the old d is added like a residual.
    const bool adds_d = args_.mode == GradientMode::kAccumulate && !in_place();
    const ConstTensorView added = adds_d ? ConstTensorView(args_.d) : args_.residual;
    float* kept = place(args_.pre_activation, at, pre);
    if (args_.bias.defined() || kept != nullptr || args_.activation != Activation::kNone || added.defined()) {
      numerics().activation->epilogue({.d = sum,
                                       .rows = 1,
                                       .cols = t.cols,
                                       .pitch = t.cols,
                                       .bias = read(args_.bias, t.col, t.cols, bias),
                                       .pre_activation = kept,
                                       .residual = read(added, at, t.cols, residual),
                                       .residual_pitch = t.cols,
                                       .activation = args_.activation});
      write(args_.pre_activation, at, t.cols, kept);
    }
    write(args_.d, at, t.cols, sum);
  }

  const MatmulArgs& args_;
  const Extents e_;
  const PackedOperand a_, b_;
  const GemmNumerics& gemm_;  // for the element of both
  const Tiling tiling_;
  const Depths depths_;
  const ThreadScratch a_strips_, b_strips_, sums_, rows_;
};

}  // namespace

void matmul_by_panels(const KernelContext& exec, const MatmulArgs& args, const Extents& e) {
  PanelProduct(exec, args, e).run(exec);
}

}  // namespace trireme::cpu
