// Group norm, with the numerics of batch norm: statistics of channels, summed over the channels of a group
// and the pieces of a sample in order, in fp64. See [Note: batch statistics].
#include <cassert>
#include <cmath>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/row_pieces.h"

namespace trireme::cpu {
namespace {

/// The affine map of each sample, (x - mean) rstd gamma + beta = x scale + shift, as rows of channels.
class SampleAffine {
 public:
  SampleAffine(const KernelContext& exec, ConstTensorView gamma, ConstTensorView beta, std::int64_t samples,
               std::int64_t groups)
      : cols_(gamma.num_elems()),
        groups_(groups),
        memory_(exec, std::max<std::int64_t>(1, (3 * samples + 2) * cols_)),
        gamma_(read(gamma, 0, cols_, memory_.data() + 3 * samples * cols_)),
        beta_(read(beta, 0, cols_, memory_.data() + (3 * samples + 1) * cols_)) {}

  void set_statistics(std::int64_t sample, const float* mean, const float* rstd) const {
    for (std::int64_t c = 0; c < cols_; ++c) {
      const std::int64_t g = sample * groups_ + c * groups_ / cols_;
      scale(sample)[c] = gamma_[c] * rstd[g];
      shift(sample)[c] = beta_[c] - mean[g] * scale(sample)[c];
      means(sample)[c] = mean[g];
    }
  }
  const float* gamma() const { return gamma_; }
  float* scale(std::int64_t sample) const { return memory_.data() + 3 * sample * cols_; }
  float* shift(std::int64_t sample) const { return scale(sample) + cols_; }
  float* means(std::int64_t sample) const { return scale(sample) + 2 * cols_; }

 private:
  const std::int64_t cols_, groups_;
  const Workspace memory_;
  const float *gamma_, *beta_;
};

void apply_silu(float* y, std::int64_t n) {
  numerics().activation->epilogue({.d = y,
                                   .rows = 1,
                                   .cols = n,
                                   .pitch = n,
                                   .bias = nullptr,
                                   .pre_activation = nullptr,
                                   .residual = nullptr,
                                   .residual_pitch = 0,
                                   .activation = Activation::kSilu});
}

// Combines the moments of the pieces and channels of a group.
void combine_group(const RowPieces& pieces, const float* moments, const GroupNormFwdArgs& args,
                   std::int64_t sample, std::int64_t group) {
  const std::int64_t groups = args.mean.shape[1], width = pieces.cols / groups;
  const auto total = static_cast<double>(pieces.rows * width);
  double mean = 0.0, m2 = 0.0;
  const auto for_each_moment = [&](const auto& visit) {
    for (std::int64_t p = 0; p < pieces.count; ++p) {
      const float* means = moments + 2 * (sample * pieces.count + p) * pieces.cols + group * width;
      const auto rows = static_cast<double>(pieces.rows_of(p));
      for (std::int64_t c = 0; c < width; ++c) {
        visit(rows, static_cast<double>(means[c]), static_cast<double>(means[pieces.cols + c]));
      }
    }
  };
  for_each_moment([&](double rows, double piece_mean, double) { mean += rows * piece_mean; });
  mean /= total;
  for_each_moment([&](double rows, double piece_mean, double piece_m2) {
    m2 += piece_m2 + rows * (piece_mean - mean) * (piece_mean - mean);
  });
  args.mean.as<float>()[sample * groups + group] = static_cast<float>(mean);
  args.rstd.as<float>()[sample * groups + group] =
      static_cast<float>(1.0 / std::sqrt(m2 / total + static_cast<double>(args.epsilon)));
}

/// Sums over the rows of each sample, and the factors of dx = scale g + of_x (x - mean) + constant.
class SampleSums {
 public:
  SampleSums(const KernelContext& exec, const RowPieces& pieces)
      : pieces_(pieces),
        memory_(exec, std::max<std::int64_t>(
                          1, (2 * pieces.samples * pieces.count + 4 * pieces.samples) * pieces.cols)) {}

  /// The sums of g and of g (x - mean) in a piece of a sample.
  float* of_piece(std::int64_t piece) const { return memory_.data() + 2 * piece * pieces_.cols; }
  /// dbeta and dgamma of a sample.
  float* dbeta(std::int64_t sample) const {
    return of_piece(pieces_.samples * pieces_.count) + 4 * sample * pieces_.cols;
  }
  float* dgamma(std::int64_t sample) const { return dbeta(sample) + pieces_.cols; }
  float* of_x(std::int64_t sample) const { return dbeta(sample) + 2 * pieces_.cols; }
  float* constant(std::int64_t sample) const { return dbeta(sample) + 3 * pieces_.cols; }

  void finish(const GroupNormBwdArgs& args, const float* gamma, std::int64_t sample) const {
    const std::int64_t groups = args.mean.shape[1], width = pieces_.cols / groups;
    const auto total = static_cast<double>(pieces_.rows * width);
    for (std::int64_t g = 0; g < groups; ++g) {
      const auto rstd = static_cast<double>(args.rstd.as<float>()[sample * groups + g]);
      double of_group = 0.0, of_group_x = 0.0;
      for (std::int64_t c = g * width; c < (g + 1) * width; ++c) {
        double sum = 0.0, sum_x = 0.0;
        for (std::int64_t p = 0; p < pieces_.count; ++p) {
          const float* sums = of_piece(sample * pieces_.count + p);
          sum += static_cast<double>(sums[c]);
          sum_x += static_cast<double>(sums[pieces_.cols + c]);
        }
        dbeta(sample)[c] = static_cast<float>(sum);
        dgamma(sample)[c] = static_cast<float>(sum_x * rstd);
        of_group += static_cast<double>(gamma[c]) * sum;
        of_group_x += static_cast<double>(gamma[c]) * sum_x;
      }
      for (std::int64_t c = g * width; c < (g + 1) * width; ++c) {
        of_x(sample)[c] = static_cast<float>(-rstd * rstd * rstd * of_group_x / total);
        constant(sample)[c] = static_cast<float>(-rstd * of_group / total);
      }
    }
  }

 private:
  const RowPieces& pieces_;
  const Workspace memory_;
};

// Adds `pitch` floats apart, in sample order.
void add_samples(const float* sums, std::int64_t samples, std::int64_t pitch, TensorView to,
                 GradientMode mode) {
  if (mode == GradientMode::kIgnore) return;
  for (std::int64_t c = 0; c < to.num_elems(); ++c) {
    double sum = 0.0;
    for (std::int64_t i = 0; i < samples; ++i) sum += static_cast<double>(sums[i * pitch + c]);
    float& out = to.as<float>()[c];
    out = mode == GradientMode::kAccumulate ? out + static_cast<float>(sum) : static_cast<float>(sum);
  }
}

/// The gradients of a piece before its activation. `gradient` is a buffer for them.
ChannelGradients gradients_of(const GroupNormBwdArgs& args, const SampleAffine& affine, std::int64_t sample,
                              std::int64_t first, std::int64_t rows, float* dy_buffer, float* x_buffer,
                              float* gradient) {
  const std::int64_t cols = args.x.shape.dim(-1), at = first * cols, count = rows * cols;
  const float *dy = read(args.dy, at, count, dy_buffer), *x = read(args.x, at, count, x_buffer);
  if (args.activation == Activation::kSilu) {
    numerics().batch_norm->affine({.x = x,
                                   .residual = nullptr,
                                   .scale = affine.scale(sample),
                                   .shift = affine.shift(sample),
                                   .y = gradient,
                                   .rows = rows,
                                   .cols = cols,
                                   .rectify = false,
                                   .stream = false});
    numerics().activation->silu_bwd(dy, gradient, gradient, count);
    dy = gradient;
  }
  return {.dy = dy,
          .x = x,
          .y = nullptr,
          .scale = nullptr,
          .shift = nullptr,
          .mean = affine.means(sample),
          .passes = Passes::kAll,
          .rows = rows,
          .cols = cols,
          .sum = nullptr,
          .sum_x = nullptr,
          .gradient = nullptr};
}

}  // namespace

void run_op(const KernelContext& exec, const GroupNormFwdArgs& args) {
  check_one_float_type("group_norm_fwd", {args.x, args.gamma, args.beta, args.y});
  check_fp32("group_norm_fwd", {args.mean, args.rstd});
  const std::int64_t samples = args.mean.shape[0], groups = args.mean.shape[1];
  const RowPieces pieces(exec, args.x, 1, samples);
  const std::int64_t cols = pieces.cols;
  if (args.x.num_elems() == 0) return;
  assert(args.gamma.num_elems() == cols && args.beta.num_elems() == cols && cols % groups == 0);
  const Workspace moments(exec, 2 * samples * pieces.count * cols);
  pieces.for_each([&](std::int64_t piece, std::int64_t first, std::int64_t rows, const auto& scratch) {
    float* out = moments.data() + 2 * piece * cols;
    numerics().batch_norm->moments({.x = read(args.x, first * cols, rows * cols, scratch(0)),
                                    .rows = rows,
                                    .cols = cols,
                                    .mean = out,
                                    .m2 = out + cols});
  });
  const SampleAffine affine(exec, args.gamma, args.beta, samples, groups);
  for_each_piece(exec, samples, 4 * samples * pieces.count * cols, [&](std::int64_t sample) {
    for (std::int64_t g = 0; g < groups; ++g) combine_group(pieces, moments.data(), args, sample, g);
    affine.set_statistics(sample, args.mean.as<float>(), args.rstd.as<float>());
  });
  pieces.for_each([&](std::int64_t piece, std::int64_t first, std::int64_t rows, const auto& scratch) {
    const std::int64_t at = first * cols, count = rows * cols, sample = piece / pieces.count;
    float* y = place(args.y, at, scratch(0));
    numerics().batch_norm->affine({.x = read(args.x, at, count, scratch(0)),
                                   .residual = nullptr,
                                   .scale = affine.scale(sample),
                                   .shift = affine.shift(sample),
                                   .y = y,
                                   .rows = rows,
                                   .cols = cols,
                                   .rectify = false,
                                   .stream = false});
    if (args.activation == Activation::kSilu) apply_silu(y, count);
    write(args.y, at, count, y);
  });
}

void run_op(const KernelContext& exec, const GroupNormBwdArgs& args) {
  check_one_float_type("group_norm_bwd", {args.dy, args.x, args.gamma, args.beta, args.dx_add, args.dx});
  check_fp32("group_norm_bwd", {args.mean, args.rstd, args.dgamma, args.dbeta});
  const std::int64_t samples = args.mean.shape[0], groups = args.mean.shape[1];
  const RowPieces pieces(exec, args.x, 3, samples);
  const std::int64_t cols = pieces.cols;
  const ThreadScratch gradients(exec, pieces.most_elems());
  const SampleAffine affine(exec, args.gamma, args.beta, samples, groups);
  const SampleSums sums(exec, pieces);
  for (std::int64_t i = 0; i < samples; ++i) {
    affine.set_statistics(i, args.mean.as<float>(), args.rstd.as<float>());
  }
  pieces.for_each([&](std::int64_t piece, std::int64_t first, std::int64_t rows, const auto& scratch) {
    ChannelGradients in = gradients_of(args, affine, piece / pieces.count, first, rows, scratch(0),
                                       scratch(1), gradients.mine());
    in.sum = sums.of_piece(piece);
    in.sum_x = in.sum + cols;
    numerics().batch_norm->sums(in);
  });
  for_each_piece(exec, samples, 4 * samples * pieces.count * cols,
                 [&](std::int64_t sample) { sums.finish(args, affine.gamma(), sample); });
  add_samples(sums.dgamma(0), samples, 4 * cols, args.dgamma, args.dgamma_mode);
  add_samples(sums.dbeta(0), samples, 4 * cols, args.dbeta, args.dbeta_mode);
  pieces.for_each([&](std::int64_t piece, std::int64_t first, std::int64_t rows, const auto& scratch) {
    const std::int64_t at = first * cols, count = rows * cols, sample = piece / pieces.count;
    const ChannelGradients in =
        gradients_of(args, affine, sample, first, rows, scratch(0), scratch(1), gradients.mine());
    const float* added = read(args.dx_add, at, count, scratch(2));
    // A gradient that is added would be overwritten in place.
    float* dx = added != nullptr ? gradients.mine() : place(args.dx, at, scratch(0));
    numerics().batch_norm->backward({.in = in,
                                     .of_g = affine.scale(sample),
                                     .of_x = sums.of_x(sample),
                                     .constant = sums.constant(sample),
                                     .dx = dx,
                                     .stream = false});
    if (added != nullptr) {
      float* out = place(args.dx, at, dx);
      numerics().elementwise->add(dx, added, out, count);
      dx = out;
    }
    write(args.dx, at, count, dx);
  });
}

}  // namespace trireme::cpu
