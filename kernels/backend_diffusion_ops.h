// Arguments of the ops of diffusion networks, beside backend_image_ops.h: group norm, upsampling,
// joined channels, time embeddings, attention to another sequence, squared error. Contracts: see [Note:
// kernel contracts] in backend.h.
#pragma once

#include <cstdint>

#include "kernels/op_table.h"

namespace trireme {

/// y = act((x - mean) * rstd * gamma + beta) (Wu & He 2018). mean and rstd are per sample and group: group g
/// is the C / G channels from g C / G on, at all positions. The variance is the biased one. A sample's bits
/// do not depend on its neighbours.
struct GroupNormFwdArgs {
  static constexpr const char* kName = "group_norm_fwd";
  ConstTensorView x;            // [B, ..., C]
  ConstTensorView gamma, beta;  // [C]
  TensorView y;                 // like x; may be x
  TensorView mean, rstd;        // [B, G] fp32
  float epsilon = 1e-5f;
  Activation activation = Activation::kNone;  // or kSilu
};
template <class Visit>
void visit_views(GroupNormFwdArgs& args, Visit visit) {
  visit_each<ViewUse::kReadTwice>(visit, args.x);
  visit_each<ViewUse::kRead>(visit, args.gamma, args.beta);
  visit_each<ViewUse::kWrite>(visit, args.y, args.mean, args.rstd);
}

/// With xhat = (x - mean) rstd, g = dy act'(xhat gamma + beta), and N elements in a group of a sample:
/// dbeta = sum g, dgamma = sum g xhat, dx = rstd (gamma g - (sum gamma g + xhat sum gamma g xhat) / N), with
/// these two sums over the group. dgamma and dbeta of the samples are added in sample order.
struct GroupNormBwdArgs {
  static constexpr const char* kName = "group_norm_bwd";
  ConstTensorView dy, x;        // [B, ..., C]
  ConstTensorView gamma, beta;  // [C]
  ConstTensorView mean, rstd;   // [B, G] fp32
  ConstTensorView dx_add;       // like x, or undefined: added to dx (another use of x); may be dx itself
  TensorView dx;                // like x; may be dy or dx_add
  TensorView dgamma, dbeta;     // [C] fp32
  GradientMode dgamma_mode = GradientMode::kOverwrite;
  GradientMode dbeta_mode = GradientMode::kOverwrite;
  Activation activation = Activation::kNone;  // as in forward
};
template <class Visit>
void visit_views(GroupNormBwdArgs& args, Visit visit) {
  visit_each<ViewUse::kReadTwice>(visit, args.dy, args.x);
  visit_each<ViewUse::kRead>(visit, args.gamma, args.beta, args.mean, args.rstd, args.dx_add);
  visit_each<ViewUse::kWrite>(visit, args.dx);
  visit(args.dgamma, use_of(args.dgamma_mode));
  visit(args.dbeta, use_of(args.dbeta_mode));
}

/// y[b, i, j] = x[b, i / 2, j / 2].
struct UpsampleFwdArgs {
  static constexpr const char* kName = "upsample_fwd";
  ConstTensorView x;  // [B, H, W, C]
  TensorView y;       // [B, 2 H, 2 W, C]
};
template <class Visit>
void visit_views(UpsampleFwdArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.x);
  visit_each<ViewUse::kWrite>(visit, args.y);
}

/// dx = the sum of the four pixels of dy: (upper left + upper right) + (lower left + lower right).
struct UpsampleBwdArgs {
  static constexpr const char* kName = "upsample_bwd";
  ConstTensorView dy;  // [B, 2 H, 2 W, C]
  TensorView dx;       // [B, H, W, C]
};
template <class Visit>
void visit_views(UpsampleBwdArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.dy);
  visit_each<ViewUse::kWrite>(visit, args.dx);
}

/// Rows of y are a row of a followed by a row of b.
struct ConcatChannelsArgs {
  static constexpr const char* kName = "concat_channels";
  ConstTensorView a, b;  // [M, A], [M, B]
  TensorView y;          // [M, A + B]
};
template <class Visit>
void visit_views(ConcatChannelsArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.a, args.b);
  visit_each<ViewUse::kWrite>(visit, args.y);
}

/// a = the first A columns of x, b = the others.
struct SplitChannelsArgs {
  static constexpr const char* kName = "split_channels";
  ConstTensorView x;  // [M, A + B]
  TensorView a, b;    // [M, A], [M, B]
};
template <class Visit>
void visit_views(SplitChannelsArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.x);
  visit_each<ViewUse::kWrite>(visit, args.a, args.b);
}

/// out = a * b, element by element; out may be a or b.
struct MulArgs {
  static constexpr const char* kName = "mul";
  ConstTensorView a, b;
  TensorView out;
};
template <class Visit>
void visit_views(MulArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.a, args.b);
  visit_each<ViewUse::kWrite>(visit, args.out);
}

/// The halves of a time embedding.
enum class TimeHalves : std::uint8_t { kSineFirst, kCosineFirst };

/// Sines and cosines of scale t max_period^(-i / (D / 2 - frequency_shift)), i = 0 .. D / 2 - 1 (Ho et al.
/// 2020). For an odd D, the last column is 0.
struct TimeEmbeddingArgs {
  static constexpr const char* kName = "time_embedding";
  ConstTensorView timesteps;  // [B] fp32
  TensorView out;             // [B, D] fp32
  TimeHalves halves = TimeHalves::kSineFirst;
  float frequency_shift = 1.0f;
  float scale = 1.0f;
  float max_period = 10000.0f;
};
template <class Visit>
void visit_views(TimeEmbeddingArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.timesteps);
  visit_each<ViewUse::kWrite>(visit, args.out);
}

/// Softmax(scale Q K^T) V, where keys and values are of another sequence than the queries. Every query
/// attends to all keys of its sample. See AttentionFwdArgs.
struct CrossAttentionFwdArgs {
  static constexpr const char* kName = "cross_attention_fwd";
  ConstTensorView q;     // [B, T, H D]
  ConstTensorView k, v;  // [B, S, H D]
  TensorView out;        // [B, T, H D]
  TensorView lse;        // [B, H, T] fp32: log-sum-exp of the scaled scores
  int num_heads = 1;     // H
  float scale = 1.0f;
  MathMode math = MathMode::kFp32;
};
template <class Visit>
void visit_views(CrossAttentionFwdArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.q, args.k, args.v);
  visit_each<ViewUse::kWrite>(visit, args.out, args.lse);
}

struct CrossAttentionBwdArgs {
  static constexpr const char* kName = "cross_attention_bwd";
  ConstTensorView q, k, v, dout, out;  // as in forward; dout as out
  ConstTensorView lse;                 // [B, H, T]
  TensorView dq, dk, dv;               // as q, k, v
  int num_heads = 1;
  float scale = 1.0f;
  MathMode math = MathMode::kFp32;
};
template <class Visit>
void visit_views(CrossAttentionBwdArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.q, args.k, args.v, args.dout, args.out, args.lse);
  visit_each<ViewUse::kWrite>(visit, args.dq, args.dk, args.dv);
}

/// sample_errors[b] = e[b] = the mean of (prediction - target)^2 over the elements of sample b; loss =
/// inv_num_targets * sum of sample_weights[b] e[b], in sample order. With write_gradient, the prediction
/// becomes gradient_scale * d loss / d prediction in place. The scale is applied before rounding to the dtype
/// of the prediction.
struct SquaredErrorArgs {
  static constexpr const char* kName = "squared_error";
  TensorView prediction;           // [B, ...]
  ConstTensorView target;          // like prediction, fp32
  ConstTensorView sample_weights;  // [B] fp32, or undefined: all 1
  TensorView sample_errors;        // [B] fp32
  TensorView loss;                 // [] fp32, or undefined
  float inv_num_targets = 1.0f;    // usually 1 / (samples of the global batch)
  ConstTensorView gradient_scale;  // [] fp32, or undefined: 1
  bool write_gradient = false;
};
template <class Visit>
void visit_views(SquaredErrorArgs& args, Visit visit) {
  visit(args.prediction, args.write_gradient ? ViewUse::kUpdate : ViewUse::kRead);
  visit_each<ViewUse::kRead>(visit, args.target, args.sample_weights, args.gradient_scale);
  visit_each<ViewUse::kWrite>(visit, args.sample_errors, args.loss);
}

/// The ops of this file, in the order of their structs.
using DiffusionOps = OpList<GroupNormFwdArgs, GroupNormBwdArgs, UpsampleFwdArgs, UpsampleBwdArgs,
                            ConcatChannelsArgs, SplitChannelsArgs, MulArgs, TimeEmbeddingArgs,
                            CrossAttentionFwdArgs, CrossAttentionBwdArgs, SquaredErrorArgs>;

}  // namespace trireme
