// [Note: panels] A tile of the output is a sum over blocks of K. For each, the rows and columns that it needs
// are converted into two fp32 panels of the thread, still warm when sgemm packs them; so there is never an
// fp32 copy of an operand, and the scratch memory does not grow with the product. The sum is held in fp32, in
// `d` itself where that is fp32, and a 16-bit result is rounded once, after the epilogue.
#include "kernels/cpu/matmul_panels.h"

#include "kernels/cpu/convert.h"
#include "kernels/cpu/numerics.h"

namespace trireme::cpu {
namespace {

// Measured on AVX-512 with 1 MiB of L2, against tiles of 256 to 1024 rows and depths of 192 to 1024: the
// quickest, and 4 MiB of scratch a thread at most.
constexpr TileLimits kTileLimits{.rows = 1024, .cols = 384};
constexpr std::int64_t kMaxDepth = 384;
// Rows of a panel do not start a power of two apart, which would crowd them into few sets of the cache.
constexpr std::int64_t kPad = 16;

/// One operand in memory, [rows, cols].
struct Operand {
  ConstTensorView data;
  Element element;
  std::int64_t cols;
};

Operand operand(ConstTensorView data, MathMode math) {
  const bool tf32 = data.dtype == DType::kFloat32 && math == MathMode::kTf32;
  return {data, tf32 ? Element::kTf32 : element_of(data.dtype), data.shape[1]};
}

/// A part of an operand in fp32.
struct Panel {
  const float* data;
  std::int64_t pitch;
};

Panel convert(const Operand& from, const Tile& part, float* to) {
  const std::int64_t pitch = part.cols + kPad;
  const std::int64_t elem_bytes = size_bytes(from.data.dtype);
  for (std::int64_t i = 0; i < part.rows; ++i) {
    const char* row = from.data.as<char>() + ((part.row + i) * from.cols + part.col) * elem_bytes;
    numerics().cast->read(row, from.element, to + i * pitch, part.cols);
  }
  return {to, pitch};
}

/// The same part with rows and columns exchanged.
Panel convert_transposed(const Operand& from, const Tile& part, float* to) {
  const std::int64_t pitch = part.rows + kPad;
  const std::int64_t first = part.row * from.cols + part.col;
  numerics().cast->read_transposed({.x = from.data.as<char>() + first * size_bytes(from.data.dtype),
                                    .element = from.element,
                                    .x_pitch = from.cols,
                                    .rows = part.rows,
                                    .cols = part.cols,
                                    .y = to,
                                    .y_pitch = pitch});
  return {to, pitch};
}

/// How K is cut: by its length alone.
struct Depths {
  std::int64_t depth, count;
};

Depths depths_of(std::int64_t k) {
  const std::int64_t count = std::max<std::int64_t>(1, ceil_div(k, kMaxDepth));
  return {ceil_div(ceil_div(k, count), 16) * 16, count};
}

class PanelProduct {
 public:
  PanelProduct(const KernelContext& exec, const MatmulArgs& args, const Extents& e)
      : args_(args),
        e_(e),
        a_(operand(args.a, args.math)),
        b_(operand(args.b, args.math)),
        tiling_(tiling_of(e, kTileLimits)),
        depths_(depths_of(e.k)),
        a_panels_(exec, panel_floats(args.transpose_a == Transpose::kYes, tiling_.tile_rows)),
        b_panels_(exec, panel_floats(true, tiling_.tile_cols)),
        sums_(exec, in_place() ? 0 : tiling_.tile_rows * tiling_.tile_cols),
        rows_(exec, 3 * tiling_.tile_cols) {}

  void run(const KernelContext& exec) const {
    for_each_tile(exec, e_, tiling_, [&](const Tile& t) { return compute(t); });
  }

 private:
  // The sum of a tile may grow where the result goes.
  bool in_place() const { return args_.d.dtype == DType::kFloat32 && !args_.residual.defined(); }

  // Of a panel that holds [depth, extent] or [extent, depth].
  std::int64_t panel_floats(bool depth_down, std::int64_t extent) const {
    return depth_down ? depths_.depth * (extent + kPad) : extent * (depths_.depth + kPad);
  }

  dnnl_status_t compute(const Tile& t) const {
    const std::int64_t pitch = in_place() ? e_.n : t.cols;
    float* sum = in_place() ? args_.d.as<float>() + t.row * e_.n + t.col : sums_.mine();
    float beta = in_place() && args_.mode == GradientMode::kAccumulate ? 1.0f : 0.0f;
    if (e_.k == 0 && beta == 0.0f) {
      for (std::int64_t i = 0; i < t.rows; ++i) std::fill_n(sum + i * pitch, t.cols, 0.0f);
    }
    for (std::int64_t first = 0; first < e_.k; first += depths_.depth) {
      const std::int64_t depth = std::min(depths_.depth, e_.k - first);
      const dnnl_status_t status = add_block(t, first, depth, beta, sum, pitch);
      if (status != dnnl_success) return status;
      beta = 1.0f;
    }
    for (std::int64_t i = 0; i < t.rows; ++i) finish_row(t, t.row + i, sum + i * pitch);
    return dnnl_success;
  }

  // sgemm takes the panel of b as [depth, cols] in any case: its own packing of the other order is slow.
  // sum = op(a) op(b) over k in [first, first + depth) + beta * sum.
  dnnl_status_t add_block(const Tile& t, std::int64_t first, std::int64_t depth, float beta, float* sum,
                          std::int64_t pitch) const {
    const bool ta = args_.transpose_a == Transpose::kYes, tb = args_.transpose_b == Transpose::kYes;
    const Tile in_a = ta ? Tile{first, t.row, depth, t.rows} : Tile{t.row, first, t.rows, depth};
    const Tile in_b = tb ? Tile{t.col, first, t.cols, depth} : Tile{first, t.col, depth, t.cols};
    const Panel a = convert(a_, in_a, a_panels_.mine());
    const Panel b = (tb ? convert_transposed : convert)(b_, in_b, b_panels_.mine());
    return dnnl_sgemm(ta ? 'T' : 'N', 'N', t.rows, t.cols, depth, 1.0f, a.data, a.pitch, b.data, b.pitch,
                      beta, sum, pitch);
  }

  // Row `row` of the tile: the epilogue, then the one rounding.
  void finish_row(const Tile& t, std::int64_t row, float* sum) const {
    const std::int64_t at = row * e_.n + t.col;
    float* const buffers = rows_.mine();
    float *const bias = buffers, *const pre = bias + t.cols, *const residual = pre + t.cols;
    // An accumulated result is its own residual.
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
                                       .gelu = args_.activation == Activation::kGeluTanh});
      write(args_.pre_activation, at, t.cols, kept);
    }
    write(args_.d, at, t.cols, sum);
  }

  const MatmulArgs& args_;
  const Extents e_;
  const Operand a_, b_;
  const Tiling tiling_;
  const Depths depths_;
  const ThreadScratch a_panels_, b_panels_, sums_, rows_;
};

}  // namespace

void matmul_by_panels(const KernelContext& exec, const MatmulArgs& args, const Extents& e) {
  PanelProduct(exec, args, e).run(exec);
}

}  // namespace trireme::cpu
