// Arguments of the image ops (NHWC): convolution, batch norm, ReLU, pooling. Also the ops that turn an image
// into tokens and pool tokens into one. Contracts: see [Note: kernel contracts] in backend.h.
#pragma once

#include <compare>
#include <cstdint>

#include "kernels/op_table.h"

namespace trireme {

/// kYes applies max(0, .) in the same pass.
enum class Rectify : std::uint8_t { kNo, kYes };

/// Stride, groups and zero padding of a convolution, equal for the height and the width of an image.
/// `padding_after` is the padding below and on the right; -1: as above and on the left.
struct ConvGeometry {
  std::int64_t stride = 1, padding = 0, groups = 1, padding_after = -1;
  auto operator<=>(const ConvGeometry&) const = default;

  std::int64_t end_padding() const { return padding_after < 0 ? padding : padding_after; }
  bool has_padding() const { return padding > 0 || end_padding() > 0; }
  /// Output pixels along a side of `size` pixels, for a kernel of `kernel` pixels; <= 0: the kernel is larger
  /// than the padded side.
  std::int64_t out_size(std::int64_t size, std::int64_t kernel) const {
    const std::int64_t rest = size + padding + end_padding() - kernel;
    return rest < 0 ? 0 : rest / stride + 1;
  }
};

/// y[b, i, j, o] = bias[o] + sum over r, s, c of x[b, i * stride + r - padding, ..., c] weight[o, c, r, s].
/// Channel o reads only the channels c of its group. Images are NHWC, weights as in PyTorch.
struct Conv2dFwdArgs {
  static constexpr const char* kName = "conv2d_fwd";
  ConstTensorView x;       // [B, H, W, C]
  ConstTensorView weight;  // [O, C / groups, R, S]
  ConstTensorView bias;    // [O], or undefined
  TensorView y;            // [B, out_size(H, R), out_size(W, S), O]
  ConvGeometry geometry;
  MathMode math = MathMode::kFp32;
};
template <class Visit>
void visit_views(Conv2dFwdArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.x, args.weight, args.bias);
  visit_each<ViewUse::kWrite>(visit, args.y);
}

struct Conv2dBwdDataArgs {
  static constexpr const char* kName = "conv2d_bwd_data";
  ConstTensorView dy, weight;
  ConstTensorView dx_add;  // like dx, or undefined: added to dx (another use of x); may be dx itself
  TensorView dx;
  ConvGeometry geometry;
  MathMode math = MathMode::kFp32;
};
template <class Visit>
void visit_views(Conv2dBwdDataArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.dy, args.weight, args.dx_add);
  visit_each<ViewUse::kWrite>(visit, args.dx);
}

struct Conv2dBwdWeightArgs {
  static constexpr const char* kName = "conv2d_bwd_weight";
  ConstTensorView dy, x;
  TensorView dweight;  // fp32
  ConvGeometry geometry;
  MathMode math = MathMode::kFp32;
  GradientMode mode = GradientMode::kOverwrite;
};
template <class Visit>
void visit_views(Conv2dBwdWeightArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.dy, args.x);
  visit(args.dweight, use_of(args.mode));
}

/// y = rectify((x - mean) * rstd * gamma + beta + residual). mean and variance are per channel over the rows;
/// the variance is the biased one (Ioffe & Szegedy 2015).
struct BatchNormFwdArgs {
  static constexpr const char* kName = "batch_norm_fwd";
  ConstTensorView x;            // [..., C], M rows
  ConstTensorView gamma, beta;  // [C]
  ConstTensorView residual;     // like x, or undefined
  TensorView y;                 // like x
  TensorView mean, rstd;        // [C] fp32
  TensorView variance;  // [C] fp32, or undefined: M / (M - 1) times the biased one (unchanged for M = 1)
  float epsilon = 1e-5f;
  Rectify rectify = Rectify::kNo;
};
template <class Visit>
void visit_views(BatchNormFwdArgs& args, Visit visit) {
  visit_each<ViewUse::kReadTwice>(visit, args.x);
  visit_each<ViewUse::kRead>(visit, args.gamma, args.beta, args.residual);
  visit_each<ViewUse::kWrite>(visit, args.y, args.mean, args.rstd, args.variance);
}

/// Batch norm with given statistics.
struct BatchNormInferArgs {
  static constexpr const char* kName = "batch_norm_infer";
  ConstTensorView x;
  ConstTensorView gamma, beta;
  ConstTensorView mean, variance;  // [C] fp32
  ConstTensorView residual;
  TensorView y;  // may be x or residual
  float epsilon = 1e-5f;
  Rectify rectify = Rectify::kNo;
};
template <class Visit>
void visit_views(BatchNormInferArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.x, args.gamma, args.beta, args.mean, args.variance, args.residual);
  visit_each<ViewUse::kWrite>(visit, args.y);
}

/// With g = dy where the ReLU was active (y > 0), else 0: dresidual = g, dbeta = sum g, dgamma = sum g xhat,
/// dx = gamma rstd (g - (dbeta + xhat dgamma) / M).
struct BatchNormBwdArgs {
  static constexpr const char* kName = "batch_norm_bwd";
  ConstTensorView dy, x;        // [..., C]
  ConstTensorView y;            // the output of fwd; needed only for a ReLU behind a residual
  ConstTensorView gamma, beta;  // [C]
  ConstTensorView mean, rstd;   // [C] fp32
  TensorView dx;                // may be dy
  TensorView dresidual;         // or undefined; may be dy, if dx is not
  TensorView dgamma, dbeta;     // [C] fp32
  GradientMode dgamma_mode = GradientMode::kOverwrite;
  GradientMode dbeta_mode = GradientMode::kOverwrite;
  Rectify rectify = Rectify::kNo;
};
template <class Visit>
void visit_views(BatchNormBwdArgs& args, Visit visit) {
  visit_each<ViewUse::kReadTwice>(visit, args.x);
  // After dresidual is written, it is read in place of dy and y.
  const ViewUse gradient = args.dresidual.defined() ? ViewUse::kRead : ViewUse::kReadTwice;
  visit(args.dy, gradient);
  visit(args.y, gradient);
  visit_each<ViewUse::kRead>(visit, args.gamma, args.beta, args.mean, args.rstd);
  visit_each<ViewUse::kUpdate>(visit, args.dresidual);
  visit_each<ViewUse::kWrite>(visit, args.dx);
  visit(args.dgamma, use_of(args.dgamma_mode));
  visit(args.dbeta, use_of(args.dbeta_mode));
}

/// y = max(0, x); NaN stays NaN. y may be x.
struct ReluArgs {
  static constexpr const char* kName = "relu";
  ConstTensorView x;
  TensorView y;
};
template <class Visit>
void visit_views(ReluArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.x);
  visit_each<ViewUse::kWrite>(visit, args.y);
}

/// dx = dy where y > 0, else 0. dx may be dy.
struct ReluBwdArgs {
  static constexpr const char* kName = "relu_bwd";
  ConstTensorView dy, y;
  TensorView dx;
};
template <class Visit>
void visit_views(ReluBwdArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.dy, args.y);
  visit_each<ViewUse::kWrite>(visit, args.dx);
}

/// A sliding window over an image that reaches `padding` pixels beyond its borders.
struct PoolWindow {
  std::int64_t height = 1, width = 1, stride = 1, padding = 0;
  bool operator==(const PoolWindow&) const = default;
};

/// y = the maximum of the window without its padding. NaN counts as the largest; the first of equal values
/// wins.
struct MaxPoolFwdArgs {
  static constexpr const char* kName = "max_pool_fwd";
  ConstTensorView x;  // [B, H, W, C]
  TensorView y;       // [B, (H + 2 padding - height) / stride + 1, ..., C]
  TensorView place;   // like y, uint8, or undefined: row * width + column of the maximum within the window
  PoolWindow window;  // of at most 256 pixels; padding at most half of it
};
template <class Visit>
void visit_views(MaxPoolFwdArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.x);
  visit_each<ViewUse::kWrite>(visit, args.y, args.place);
}

struct MaxPoolBwdArgs {
  static constexpr const char* kName = "max_pool_bwd";
  ConstTensorView dy, place;
  TensorView dx;
  PoolWindow window;
};
template <class Visit>
void visit_views(MaxPoolBwdArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.dy, args.place);
  visit_each<ViewUse::kWrite>(visit, args.dx);
}

/// y = the sum of the window divided by its number of pixels. Padding counts as zeros.
struct AvgPoolFwdArgs {
  static constexpr const char* kName = "avg_pool_fwd";
  ConstTensorView x;
  TensorView y;
  PoolWindow window;
};
template <class Visit>
void visit_views(AvgPoolFwdArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.x);
  visit_each<ViewUse::kWrite>(visit, args.y);
}

struct AvgPoolBwdArgs {
  static constexpr const char* kName = "avg_pool_bwd";
  ConstTensorView dy;
  TensorView dx;
  PoolWindow window;
};
template <class Visit>
void visit_views(AvgPoolBwdArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.dy);
  visit_each<ViewUse::kWrite>(visit, args.dx);
}

/// y[b] = [first, x[b, 0], ..., x[b, N - 1]] + positions. Without `first`, y has the N tokens of x.
struct TokenPositionsFwdArgs {
  static constexpr const char* kName = "token_positions_fwd";
  ConstTensorView x;          // [B, N, C]
  ConstTensorView first;      // [C], or undefined
  ConstTensorView positions;  // [T, C], T = N + 1, or N without `first`
  TensorView y;               // [B, T, C]; without `first` it may be x
};
template <class Visit>
void visit_views(TokenPositionsFwdArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.x, args.first, args.positions);
  visit_each<ViewUse::kWrite>(visit, args.y);
}

/// Sums over samples are added in sample order.
struct TokenPositionsBwdArgs {
  static constexpr const char* kName = "token_positions_bwd";
  ConstTensorView dy;     // [B, T, C]
  TensorView dx;          // [B, T - 1, C], or undefined: not needed, or identical to dy
  TensorView dfirst;      // [C] fp32
  TensorView dpositions;  // [T, C] fp32
  GradientMode dfirst_mode = GradientMode::kIgnore;
  GradientMode dpositions_mode = GradientMode::kOverwrite;
};
template <class Visit>
void visit_views(TokenPositionsBwdArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.dy);
  visit_each<ViewUse::kWrite>(visit, args.dx);
  visit(args.dfirst, use_of(args.dfirst_mode));
  visit(args.dpositions, use_of(args.dpositions_mode));
}

/// y[b] = sum over n of weights[b, n] x[b, n], weights[b] = softmax(scores[b]): sequence pooling (Hassani et
/// al. 2021).
struct SequencePoolFwdArgs {
  static constexpr const char* kName = "sequence_pool_fwd";
  ConstTensorView x;       // [B, N, C]
  ConstTensorView scores;  // [B, N]
  TensorView weights;      // [B, N] fp32
  TensorView y;            // [B, C]
};
template <class Visit>
void visit_views(SequencePoolFwdArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.x, args.scores);
  visit_each<ViewUse::kWrite>(visit, args.weights, args.y);
}

/// dx[b, n] = weights[b, n] dy[b]; dscores[b, n] = weights[b, n] (g[n] - sum over m of weights[b, m] g[m]),
/// g[n] = dy[b] . x[b, n].
struct SequencePoolBwdArgs {
  static constexpr const char* kName = "sequence_pool_bwd";
  ConstTensorView dy;       // [B, C]
  ConstTensorView x;        // [B, N, C]
  ConstTensorView weights;  // [B, N] fp32, from fwd
  TensorView dx;            // [B, N, C]
  TensorView dscores;       // [B, N]
};
template <class Visit>
void visit_views(SequencePoolBwdArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.dy, args.x, args.weights);
  visit_each<ViewUse::kWrite>(visit, args.dx, args.dscores);
}

/// y[b, p] = x[b, p] + shift[b]: a vector for each sample, added at all of its positions.
struct ShiftChannelsArgs {
  static constexpr const char* kName = "shift_channels";
  ConstTensorView x;      // [B, P, C]
  ConstTensorView shift;  // [B, C]
  TensorView y;           // like x; may be x
};
template <class Visit>
void visit_views(ShiftChannelsArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.x, args.shift);
  visit_each<ViewUse::kWrite>(visit, args.y);
}

/// sum[b] = the sum over p of x[b, p], in an order that depends on P alone.
struct SumPositionsArgs {
  static constexpr const char* kName = "sum_positions";
  ConstTensorView x;  // [B, P, C]
  TensorView sum;     // [B, C]
};
template <class Visit>
void visit_views(SumPositionsArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.x);
  visit_each<ViewUse::kWrite>(visit, args.sum);
}

/// The ops of this file, in the order of their structs.
using ImageOps =
    OpList<Conv2dFwdArgs, Conv2dBwdDataArgs, Conv2dBwdWeightArgs, BatchNormFwdArgs, BatchNormInferArgs,
           BatchNormBwdArgs, ReluArgs, ReluBwdArgs, MaxPoolFwdArgs, MaxPoolBwdArgs, AvgPoolFwdArgs,
           AvgPoolBwdArgs, TokenPositionsFwdArgs, TokenPositionsBwdArgs, SequencePoolFwdArgs,
           SequencePoolBwdArgs, ShiftChannelsArgs, SumPositionsArgs>;

}  // namespace trireme
