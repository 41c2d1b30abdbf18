// [Note: batch statistics] Rows are split, by shape alone, into pieces that fit the cache. Each piece yields
// its mean and the sum of squares about that mean. The pieces are combined in order, in fp64 (Chan, Golub &
// LeVeque 1979). So memory is read once, a large mean costs no digits, and the number of threads changes no
// bit.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <initializer_list>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/row_pieces.h"

namespace trireme::cpu {
namespace {

// gamma and beta in fp32.
class Affine {
 public:
  Affine(const KernelContext& exec, ConstTensorView gamma, ConstTensorView beta)
      : cols_(gamma.num_elems()), memory_(exec, std::max<std::int64_t>(1, 4 * cols_)) {
    gamma_ = read(gamma, 0, cols_, memory_.data());
    beta_ = read(beta, 0, cols_, memory_.data() + cols_);
  }

  /// (x - mean) rstd gamma + beta = x scale + shift.
  void set_statistics(const float* mean, const float* rstd) {
    for (std::int64_t c = 0; c < cols_; ++c) {
      scale()[c] = gamma_[c] * rstd[c];
      shift()[c] = beta_[c] - mean[c] * scale()[c];
    }
  }
  float* scale() const { return memory_.data() + 2 * cols_; }
  float* shift() const { return memory_.data() + 3 * cols_; }

 private:
  const std::int64_t cols_;
  const Workspace memory_;
  const float *gamma_, *beta_;
};

float rstd_of(double variance, float epsilon) {
  return static_cast<float>(1.0 / std::sqrt(variance + static_cast<double>(epsilon)));
}

// Combines the pieces: see [Note: batch statistics]. `moments` holds all means, then all sums of squares.
void put_together(const RowPieces& pieces, const float* moments, const BatchNormFwdArgs& args,
                  std::int64_t first, std::int64_t count) {
  const auto total = static_cast<double>(pieces.rows);
  const auto rows_of = [&](std::int64_t p) { return static_cast<double>(pieces.rows_of(p)); };
  for (std::int64_t c = first; c < first + count; ++c) {
    double mean = 0.0, m2 = 0.0;
    for (std::int64_t p = 0; p < pieces.count; ++p) {
      mean += rows_of(p) / total * static_cast<double>(moments[2 * p * pieces.cols + c]);
    }
    for (std::int64_t p = 0; p < pieces.count; ++p) {
      const double apart = static_cast<double>(moments[2 * p * pieces.cols + c]) - mean;
      m2 += static_cast<double>(moments[(2 * p + 1) * pieces.cols + c]) + rows_of(p) * apart * apart;
    }
    args.mean.as<float>()[c] = static_cast<float>(mean);
    args.rstd.as<float>()[c] = rstd_of(m2 / total, args.epsilon);
    if (args.variance.defined()) {
      args.variance.as<float>()[c] = static_cast<float>(m2 / std::max(1.0, total - 1.0));
    }
  }
}

// True where a result bypasses the caches, which avoids reading its lines first. That pays for large results,
// which leave the caches before they are read. It does not pay where a result overwrites an operand, whose
// lines are already cached. The limit of 8 MiB is a guess at what stays in the last-level cache; it was not
// measured.
bool streams(TensorView result, std::initializer_list<ConstTensorView> operands) {
  constexpr std::int64_t kLeast = 8 << 20;  // bytes
  const std::int64_t cols = result.shape.dim(-1);
  return result.dtype == DType::kFloat32 && result.num_elems() * 4 >= kLeast && cols % 16 == 0 &&
         reinterpret_cast<std::uintptr_t>(result.data) % 64 == 0 &&
         std::ranges::none_of(operands, [&](ConstTensorView o) { return o.data == result.data; });
}

struct AffineArgs {
  ConstTensorView x, residual;
  TensorView y;
  Rectify rectify;
};

void apply(const RowPieces& pieces, const Affine& affine, const AffineArgs& args) {
  const std::int64_t cols = pieces.cols;
  pieces.for_each([&](std::int64_t, std::int64_t first, std::int64_t rows, const auto& scratch) {
    const std::int64_t at = first * cols, count = rows * cols;
    const float* x = read(args.x, at, count, scratch(0));
    float* y = place(args.y, at, scratch(0));
    numerics().batch_norm->affine({.x = x,
                                   .residual = read(args.residual, at, count, scratch(1)),
                                   .scale = affine.scale(),
                                   .shift = affine.shift(),
                                   .y = y,
                                   .rows = rows,
                                   .cols = cols,
                                   .rectify = args.rectify == Rectify::kYes,
                                   .stream = streams(args.y, {args.x, args.residual})});
    write(args.y, at, count, y);
  });
}

void add_gradient(TensorView to, GradientMode mode, std::int64_t c, double value) {
  if (mode == GradientMode::kIgnore) return;
  float& sum = to.as<float>()[c];
  sum = mode == GradientMode::kAccumulate ? sum + static_cast<float>(value) : static_cast<float>(value);
}

/// The factors of backward, per channel.
struct Factors {
  float *of_g, *of_x, *constant;
};

// Adds the sums of the pieces in order. Computes the factors of dx and the gradients of gamma and beta.
void finish(const RowPieces& pieces, const float* sums, const BatchNormBwdArgs& args, const float* scale,
            const Factors& factors) {
  const std::int64_t cols = pieces.cols;
  const auto total = static_cast<double>(pieces.rows);
  for (std::int64_t c = 0; c < cols; ++c) {
    double sum = 0.0, sum_x = 0.0;
    for (std::int64_t p = 0; p < pieces.count; ++p) {
      sum += static_cast<double>(sums[2 * p * cols + c]);
      sum_x += static_cast<double>(sums[(2 * p + 1) * cols + c]);
    }
    const double rstd = static_cast<double>(args.rstd.as<float>()[c]);
    add_gradient(args.dbeta, args.dbeta_mode, c, sum);
    add_gradient(args.dgamma, args.dgamma_mode, c, sum_x * rstd);
    factors.of_g[c] = scale[c];
    factors.of_x[c] = static_cast<float>(-static_cast<double>(scale[c]) * rstd * rstd * sum_x / total);
    factors.constant[c] = static_cast<float>(-static_cast<double>(scale[c]) * sum / total);
  }
}

Passes passes_of(const BatchNormBwdArgs& args) {
  if (args.rectify == Rectify::kNo) return Passes::kAll;
  return args.y.defined() ? Passes::kFromY : Passes::kFromX;
}

}  // namespace

void run_op(const KernelContext& exec, const BatchNormFwdArgs& args) {
  check_one_float_type("batch_norm_fwd", {args.x, args.gamma, args.beta, args.residual, args.y});
  check_fp32("batch_norm_fwd", {args.mean, args.rstd, args.variance});
  const RowPieces pieces(exec, args.x, 2);
  const std::int64_t cols = pieces.cols;
  if (pieces.rows == 0) return;
  assert(args.gamma.num_elems() == cols && args.y.num_elems() == args.x.num_elems());
  Affine affine(exec, args.gamma, args.beta);
  const Workspace moments(exec, 2 * pieces.count * cols);
  pieces.for_each([&](std::int64_t piece, std::int64_t first, std::int64_t rows, const auto& scratch) {
    float* out = moments.data() + 2 * piece * cols;
    numerics().batch_norm->moments({.x = read(args.x, first * cols, rows * cols, scratch(0)),
                                    .rows = rows,
                                    .cols = cols,
                                    .mean = out,
                                    .m2 = out + cols});
  });
  for_each_column_range(exec, cols, 4 * pieces.count * cols, [&](std::int64_t first, std::int64_t count) {
    put_together(pieces, moments.data(), args, first, count);
  });
  affine.set_statistics(args.mean.as<float>(), args.rstd.as<float>());
  apply(pieces, affine, {args.x, args.residual, args.y, args.rectify});
}

void run_op(const KernelContext& exec, const BatchNormInferArgs& args) {
  check_one_float_type("batch_norm_infer", {args.x, args.gamma, args.beta, args.residual, args.y});
  check_fp32("batch_norm_infer", {args.mean, args.variance});
  const RowPieces pieces(exec, args.x, 2);
  const Workspace rstd(exec, std::max<std::int64_t>(1, pieces.cols));
  for (std::int64_t c = 0; c < pieces.cols; ++c) {
    rstd.data()[c] = rstd_of(static_cast<double>(args.variance.as<float>()[c]), args.epsilon);
  }
  Affine affine(exec, args.gamma, args.beta);
  affine.set_statistics(args.mean.as<float>(), rstd.data());
  apply(pieces, affine, {args.x, args.residual, args.y, args.rectify});
}

void run_op(const KernelContext& exec, const BatchNormBwdArgs& args) {
  check_one_float_type("batch_norm_bwd",
                       {args.dy, args.x, args.y, args.gamma, args.beta, args.dx, args.dresidual});
  check_fp32("batch_norm_bwd", {args.mean, args.rstd, args.dgamma, args.dbeta});
  const RowPieces pieces(exec, args.x, 4);
  const std::int64_t cols = pieces.cols;
  if (pieces.rows == 0) return;
  Affine affine(exec, args.gamma, args.beta);
  affine.set_statistics(args.mean.as<float>(), args.rstd.as<float>());
  const Workspace memory(exec, (2 * pieces.count + 2) * cols);
  float* const sums = memory.data();
  const Factors factors{affine.scale(), sums + 2 * pieces.count * cols, sums + (2 * pieces.count + 1) * cols};
  const auto gradients_of = [&](ConstTensorView dy, Passes passes, std::int64_t first, std::int64_t rows,
                                const auto& scratch) {
    const std::int64_t at = first * cols, count = rows * cols;
    return ChannelGradients{.dy = read(dy, at, count, scratch(0)),
                            .x = read(args.x, at, count, scratch(1)),
                            .y = passes == Passes::kFromY ? read(args.y, at, count, scratch(2)) : nullptr,
                            .scale = affine.scale(),
                            .shift = affine.shift(),
                            .mean = args.mean.as<float>(),
                            .passes = passes,
                            .rows = rows,
                            .cols = cols,
                            .sum = nullptr,
                            .sum_x = nullptr,
                            .gradient = nullptr};
  };
  const bool keeps = args.dresidual.defined();
  pieces.for_each([&](std::int64_t piece, std::int64_t first, std::int64_t rows, const auto& scratch) {
    ChannelGradients in = gradients_of(args.dy, passes_of(args), first, rows, scratch);
    in.sum = sums + 2 * piece * cols;
    in.sum_x = in.sum + cols;
    in.gradient = place(args.dresidual, first * cols, scratch(3));
    numerics().batch_norm->sums(in);
    write(args.dresidual, first * cols, rows * cols, in.gradient);
  });
  finish(pieces, sums, args, affine.scale(), factors);
  // Reuses the stored gradient.
  const ConstTensorView gradient = keeps ? ConstTensorView(args.dresidual) : args.dy;
  const Passes passes = keeps ? Passes::kAll : passes_of(args);
  const bool stream = streams(args.dx, {args.dy, args.x});
  pieces.for_each([&](std::int64_t, std::int64_t first, std::int64_t rows, const auto& scratch) {
    float* dx = place(args.dx, first * cols, scratch(3));
    numerics().batch_norm->backward({.in = gradients_of(gradient, passes, first, rows, scratch),
                                     .of_g = factors.of_g,
                                     .of_x = factors.of_x,
                                     .constant = factors.constant,
                                     .dx = dx,
                                     .stream = stream});
    write(args.dx, first * cols, rows * cols, dx);
  });
}

}  // namespace trireme::cpu
