// Arguments of the ops over rows of features: products, norms, attention, embeddings, losses, elementwise
// ops. Contracts: see [Note: kernel contracts] in backend.h.
#pragma once

#include <cstdint>

#include "kernels/op_table.h"
#include "runtime/base/rng.h"

namespace trireme {

/// d = act(op(a) op(b) + bias) + residual, or d += op(a) op(b); with bias_grad, also the sums of a's columns.
struct MatmulArgs {
  static constexpr const char* kName = "matmul";
  ConstTensorView a;  // [M, K], or [K, M] with transpose_a
  ConstTensorView b;  // [K, N], or [N, K] with transpose_b
  TensorView d;       // [M, N]
  Transpose transpose_a = Transpose::kNo;
  Transpose transpose_b = Transpose::kNo;
  MathMode math = MathMode::kFp32;
  GradientMode mode = GradientMode::kOverwrite;  // kAccumulate excludes the epilogue below
  ConstTensorView bias;                          // [N], or undefined
  Activation activation = Activation::kNone;
  TensorView pre_activation;  // [M, N], or undefined: receives the argument of the activation
  ConstTensorView residual;   // [M, N], or undefined: added after the activation; may be d itself
  TensorView bias_grad;       // [M] fp32, or undefined; only with transpose_a: ColumnSumArgs::out of x = a
  GradientMode bias_grad_mode = GradientMode::kOverwrite;
  // [] fp32, both defined or neither. If defined, a and b are e4m3 or e5m2 codes, and each code times its
  // factor is the number. All other views are then bf16; d may be fp32. Both run along k: a [M, K] and b
  // [N, K] with transpose_b. No bias_grad.
  ConstTensorView a_inverse_scale, b_inverse_scale;
  // Elements between rows in memory; 0: the length of the row. See Backend::logits_alignment.
  std::int64_t a_pitch = 0, d_pitch = 0;
};
template <class Visit>
void visit_views(MatmulArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.a, args.b, args.bias, args.residual);
  visit_each<ViewUse::kRead>(visit, args.a_inverse_scale, args.b_inverse_scale);
  visit(args.d, use_of(args.mode));
  visit_each<ViewUse::kWrite>(visit, args.pre_activation);
  visit(args.bias_grad, use_of(args.bias_grad_mode));
}

/// out[n] (+)= sum over rows of x[m, n], rows in order.
struct ColumnSumArgs {
  static constexpr const char* kName = "column_sum";
  ConstTensorView x;  // [M, N]
  TensorView out;     // [N] fp32
  GradientMode mode = GradientMode::kOverwrite;
  std::int64_t x_pitch = 0;  // as MatmulArgs::a_pitch
};
template <class Visit>
void visit_views(ColumnSumArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.x);
  visit(args.out, use_of(args.mode));
}

/// y = act(x), where no matmul applies it as an epilogue. y may be x.
struct ActivationFwdArgs {
  static constexpr const char* kName = "activation_fwd";
  ConstTensorView x;
  TensorView y;
  Activation activation = Activation::kGeluTanh;
};
template <class Visit>
void visit_views(ActivationFwdArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.x);
  visit_each<ViewUse::kWrite>(visit, args.y);
}

/// dx = dy * act'(pre). dx may be dy.
struct ActivationBwdArgs {
  static constexpr const char* kName = "activation_bwd";
  ConstTensorView dy, pre;
  TensorView dx;
  Activation activation = Activation::kGeluTanh;
};
template <class Visit>
void visit_views(ActivationBwdArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.dy, args.pre);
  visit_each<ViewUse::kWrite>(visit, args.dx);
}

/// y = (x - mean) * rstd * gamma + beta over the last dim, with the biased variance. Without mean and beta
/// this is RMS norm (Zhang & Sennrich 2019): mean = 0 and rstd = 1 / sqrt(mean of x^2 + epsilon).
struct LayerNormFwdArgs {
  static constexpr const char* kName = "layer_norm_fwd";
  ConstTensorView x;      // [M, C]
  ConstTensorView gamma;  // [C]
  ConstTensorView beta;   // [C], or undefined (mean is then undefined, too)
  TensorView y;           // [M, C]
  TensorView mean;        // [M] fp32, or undefined
  TensorView rstd;        // [M] fp32
  float epsilon = 1e-5f;
  float gamma_center = 0.0f;  // added to each element of gamma, in fp32
};
template <class Visit>
void visit_views(LayerNormFwdArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.x, args.gamma, args.beta);
  visit_each<ViewUse::kWrite>(visit, args.y, args.mean, args.rstd);
}

struct LayerNormBwdArgs {
  static constexpr const char* kName = "layer_norm_bwd";
  ConstTensorView dy, x;     // [M, C]
  ConstTensorView gamma;     // [C]
  ConstTensorView mean;      // [M], or undefined: as in forward
  ConstTensorView rstd;      // [M]
  ConstTensorView dx_add;    // [M, C], or undefined: added to dx (the residual branch); may be dx itself
  TensorView dx;             // [M, C]; may be dy or dx_add
  TensorView dgamma, dbeta;  // [C] fp32; dbeta undefined where mean is
  GradientMode dgamma_mode = GradientMode::kOverwrite;
  GradientMode dbeta_mode = GradientMode::kOverwrite;
  float gamma_center = 0.0f;  // as in forward
};
template <class Visit>
void visit_views(LayerNormBwdArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.dy, args.x, args.gamma, args.mean, args.rstd, args.dx_add);
  visit_each<ViewUse::kWrite>(visit, args.dx);
  visit(args.dgamma, use_of(args.dgamma_mode));
  visit(args.dbeta, use_of(args.dbeta_mode));
}

/// The heads of packed rows [q | k | v]: H query heads, K key heads and K value heads, of D elements each.
struct PackedHeads {
  std::int64_t queries, keys, dim;

  /// Query heads that read one key head: query head h reads key head h / group().
  std::int64_t group() const { return queries / keys; }
  /// Elements of a packed row, and elements of its queries or its output.
  std::int64_t packed() const { return (queries + 2 * keys) * dim; }
  std::int64_t width() const { return queries * dim; }
};
/// `keys` = 0 means as many key heads as query heads.
inline PackedHeads packed_heads(std::int64_t row_elems, std::int64_t queries, std::int64_t keys) {
  if (keys == 0) keys = queries;
  return {queries, keys, row_elems / (queries + 2 * keys)};
}
template <class Args>
PackedHeads packed_heads(const Args& args) {
  return packed_heads(args.qkv.shape[2], args.num_heads, args.num_kv_heads);
}

/// Softmax(scale Q K^T) V without storing [T, T] (Dao et al. 2022). Rows are packed, qkv[b, t] = [q | k | v],
/// with H heads of q and K heads each of k and v (Ainslie et al. 2023): see PackedHeads. With dropout, p > 0,
/// probabilities are dropped. (head, query, key) has the element index (head * T + query) * T + key within
/// its sample, drawn as in DropoutArgs.
///
/// [Note: documents of a row] With key_bounds, the T tokens of a sample are a sequence of documents, and a
/// token attends only to its own document. key_bounds[b, t] is the range [first, end) of the document of
/// token t, with first <= t < end. Packed rows and padding then need one mechanism: a padding token is a
/// document of one token, invisible to all others.
///
/// [Note: sliding window] With window w > 0, the causal mask also hides keys from w tokens before the query
/// on: query t sees the keys (t - w, t] of its document (Beltagy et al. 2020; Jiang et al. 2023).
struct AttentionFwdArgs {
  static constexpr const char* kName = "attention_fwd";
  ConstTensorView qkv;   // [B, T, (H + 2 K) D]
  TensorView out;        // [B, T, H D]
  TensorView lse;        // [B, H, T] fp32: log-sum-exp of the scaled scores
  int num_heads = 1;     // H
  int num_kv_heads = 0;  // K, a divisor of H; 0: H
  float scale = 1.0f;
  bool causal = true;
  MathMode math = MathMode::kFp32;
  float dropout_p = 0.0f;
  RngKey rng;
  std::int64_t first_sample = 0;
  ConstTensorView key_bounds;  // [B, T, 2] int32, or undefined: a sample is one document
  std::int64_t window = 0;     // 0: none; needs `causal`. See [Note: sliding window]
};
template <class Visit>
void visit_views(AttentionFwdArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.qkv, args.key_bounds);
  visit_each<ViewUse::kWrite>(visit, args.out, args.lse);
}

/// The gradient of a key or value head is the sum over the query heads that read it, in their order.
struct AttentionBwdArgs {
  static constexpr const char* kName = "attention_bwd";
  ConstTensorView dout, qkv, out;  // [B, T, H D], [B, T, (H + 2 K) D], [B, T, H D]
  ConstTensorView lse;             // [B, H, T]
  TensorView dqkv;                 // as qkv
  int num_heads = 1;
  int num_kv_heads = 0;  // as in forward
  float scale = 1.0f;
  bool causal = true;
  MathMode math = MathMode::kFp32;
  float dropout_p = 0.0f;
  RngKey rng;
  std::int64_t first_sample = 0;
  ConstTensorView key_bounds;  // as in forward
  std::int64_t window = 0;     // likewise
};
template <class Visit>
void visit_views(AttentionBwdArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.qkv, args.dout, args.out, args.lse, args.key_bounds);
  visit_each<ViewUse::kWrite>(visit, args.dqkv);
}

/// Decoding: causal attention of the T newest tokens to the earlier ones and to each other. Writes their keys
/// and values to [first, first + T) of `keys` and `values`, which hold the earlier tokens. Sums are fp32;
/// kTf32 may round q, k and v. With `out` undefined, only keys and values are stored.
struct AttentionCachedArgs {
  static constexpr const char* kName = "attention_cached";
  ConstTensorView qkv;      // [B, T, (H + 2 K) D]
  TensorView keys, values;  // [B, K, capacity, D]
  TensorView out;           // [B, T, H D], or undefined
  std::int64_t first = 0;   // first + T <= capacity
  int num_heads = 1;
  int num_kv_heads = 0;  // as in AttentionFwdArgs
  float scale = 1.0f;
  MathMode math = MathMode::kFp32;
  std::int64_t window = 0;  // as in AttentionFwdArgs
};
template <class Visit>
void visit_views(AttentionCachedArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.qkv);
  visit_each<ViewUse::kUpdate>(visit, args.keys, args.values);
  visit_each<ViewUse::kWrite>(visit, args.out);
}

/// Rotation speed of the pairs of a head: pair i turns by t * frequencies[i] radians at position t (Su et al.
/// 2021).
struct RopeFrequencies {
  static constexpr int kMaxPairs = 128;
  int num_pairs = 0;  // head_dim / 2
  double frequencies[kMaxPairs] = {};
};

/// Rotary positions of packed rows as attention reads them. Elements i and i + D / 2 of every head of q and k
/// form a pair (x, y), which becomes (x cos a - y sin a, y cos a + x sin a). v is copied.
struct RopeFwdArgs {
  static constexpr const char* kName = "rope_fwd";
  ConstTensorView qkv;   // [B, T, (H + 2 K) D]
  TensorView out;        // as qkv; may be qkv
  int num_heads = 1;     // H
  int num_kv_heads = 0;  // K, as in AttentionFwdArgs
  RopeFrequencies rope;
  std::int64_t first_position = 0;  // of token 0
};
template <class Visit>
void visit_views(RopeFwdArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.qkv);
  visit_each<ViewUse::kWrite>(visit, args.out);
}

/// Rotates the gradients of q and k back.
struct RopeBwdArgs {
  static constexpr const char* kName = "rope_bwd";
  ConstTensorView dout;  // [B, T, (H + 2 K) D]
  TensorView dqkv;       // as dout; may be dout
  int num_heads = 1;
  int num_kv_heads = 0;
  RopeFrequencies rope;
};
template <class Visit>
void visit_views(RopeBwdArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.dout);
  visit_each<ViewUse::kWrite>(visit, args.dqkv);
}

/// fp8 codes of a result [M, C], with the factor that maps codes back to numbers: see [Note: fp8] in
/// runtime/base/fp8.h. The scale comes from the largest maximum in `history`, or from the result itself while
/// the history is empty. The codes are those of the result rounded to the dtype of the call.
struct CodesOutput {
  ConstTensorView history;   // [kFp8HistoryElems] fp32, or undefined: empty
  TensorView codes;          // [M, C] e4m3 or e5m2, or undefined
  TensorView turned;         // [C, M] likewise: the codes transposed
  TensorView inverse_scale;  // [] fp32; undefined: no codes are wanted
  TensorView amax;           // [] fp32, or undefined: becomes max(amax, largest magnitude)

  bool defined() const { return inverse_scale.defined(); }
  DType dtype() const { return codes.defined() ? codes.dtype : turned.dtype; }
};
template <class Visit>
void visit_codes(CodesOutput& out, Visit& visit) {
  visit_each<ViewUse::kRead>(visit, out.history);
  visit_each<ViewUse::kWrite>(visit, out.codes, out.turned, out.inverse_scale);
  visit_each<ViewUse::kUpdate>(visit, out.amax);
}

/// y = g / (1 + e^-g) * u for x[m] = [g | u] (Shazeer 2020).
struct SwigluFwdArgs {
  static constexpr const char* kName = "swiglu_fwd";
  ConstTensorView x;  // [M, 2 F]
  TensorView y;       // [M, F]; undefined with `out`
  CodesOutput out;    // of y
};
template <class Visit>
void visit_views(SwigluFwdArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.x);
  visit_each<ViewUse::kWrite>(visit, args.y);
  visit_codes(args.out, visit);
}

struct SwigluBwdArgs {
  static constexpr const char* kName = "swiglu_bwd";
  ConstTensorView dy;  // [M, F]
  ConstTensorView x;   // [M, 2 F]
  TensorView dx;       // [M, 2 F]; may be x; undefined with `out`
  CodesOutput out;     // of dx
};
template <class Visit>
void visit_views(SwigluBwdArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.dy, args.x);
  visit_each<ViewUse::kWrite>(visit, args.dx);
  visit_codes(args.out, visit);
}

/// x[b, t] = table[tokens[b, t]] (+ positions[t]). With first_id >= 0 the table is a piece of a larger one
/// that holds ids [first_id, first_id + V). Other ids give 0, and the result is added to x.
struct EmbeddingFwdArgs {
  static constexpr const char* kName = "embedding_fwd";
  ConstTensorView tokens;      // [B, T] int32, each in [0, V)
  ConstTensorView table;       // [V, C]
  ConstTensorView positions;   // [>= T, C], or undefined
  TensorView x;                // [B, T, C]
  std::int64_t first_id = -1;  // of a piece
  std::int64_t num_ids = 0;    // of all pieces
};
template <class Visit>
void visit_views(EmbeddingFwdArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.tokens);
  visit_each<ViewUse::kReadRows>(visit, args.table, args.positions);
  visit(args.x, args.first_id < 0 ? ViewUse::kWrite : ViewUse::kUpdate);
}

/// Rows are added in token order. Rows without a token are zeroed (kOverwrite) or untouched (kAccumulate).
/// For a piece of a table, as in EmbeddingFwdArgs, ids of other pieces are skipped.
struct EmbeddingBwdArgs {
  static constexpr const char* kName = "embedding_bwd";
  ConstTensorView dx;      // [B, T, C]
  ConstTensorView tokens;  // [B, T] int32
  TensorView dtable;       // [V, C] fp32, or undefined
  TensorView dpositions;   // [>= T, C] fp32, or undefined; rows >= T count as rows without a token
  GradientMode dtable_mode = GradientMode::kOverwrite;
  GradientMode dpositions_mode = GradientMode::kOverwrite;
  std::int64_t first_id = -1;  // of a piece
};
template <class Visit>
void visit_views(EmbeddingBwdArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.dx, args.tokens);
  visit(args.dtable, use_of(args.dtable_mode));
  visit(args.dpositions, use_of(args.dpositions_mode));
}

/// The tokens that have targets: y[b K + k] = x[b, positions[b, k]], and y_targets likewise. Where a position
/// is -1, y is 0 and the target is -1.
struct GatherTargetsArgs {
  static constexpr const char* kName = "gather_targets";
  ConstTensorView positions;  // [B, K] int32, each in [-1, T)
  ConstTensorView x;          // [B, T, C]
  ConstTensorView targets;    // [B, T] int32
  TensorView y;               // [B K, C]
  TensorView y_targets;       // [B K] int32
};
template <class Visit>
void visit_views(GatherTargetsArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.positions);
  visit_each<ViewUse::kReadRows>(visit, args.x, args.targets);
  visit_each<ViewUse::kWrite>(visit, args.y, args.y_targets);
}

/// The gradient of gather_targets: dx[b, positions[b, k]] = dy[b K + k], and 0 for all other tokens. The
/// positions of a sample differ, except for -1, which is skipped.
struct ScatterTargetsArgs {
  static constexpr const char* kName = "scatter_targets";
  ConstTensorView positions;  // [B, K] int32
  ConstTensorView dy;         // [B K, C]
  TensorView dx;              // [B, T, C]
};
template <class Visit>
void visit_views(ScatterTargetsArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.positions, args.dy);
  visit_each<ViewUse::kWrite>(visit, args.dx);
}

/// The unit that dropout keeps or drops.
enum class DropUnit : std::uint8_t {
  kElement,
  kSample,  // stochastic depth (Huang et al. 2016): the first element of a sample decides for all
};

/// y = keep ? x / (1 - p) : 0 (+ residual). Dim 0 of x is the sample. Element e of global sample s is kept
/// when uniform_from_bits(rng.draw(s, e / 4)[e % 4]) >= p. If x holds only part of each sample, `first_elem`
/// is the index of its first element. Applied to dy without residual, the op is its own backward.
struct DropoutArgs {
  static constexpr const char* kName = "dropout";
  ConstTensorView x;         // [B, ...]
  ConstTensorView residual;  // like x, or undefined
  TensorView y;              // may be x or residual
  float p = 0.0f;
  DropUnit unit = DropUnit::kElement;
  RngKey rng;
  std::int64_t first_sample = 0;
  std::int64_t first_elem = 0;
};
template <class Visit>
void visit_views(DropoutArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.x, args.residual);
  visit_each<ViewUse::kWrite>(visit, args.y);
}

/// loss = inv_num_targets * sum of the rows' losses, added in row order. A row has K targets t_k >= 0 with
/// weights w_k. Weights are 1 without target_weights, and 0 for a negative target. With W the sum of the
/// weights, s = label_smoothing and p = softmax(logits), the row's loss is
///   (1 - s) sum_k w_k -log p[t_k] + s W mean_j -log p[j].
/// With write_gradient, logits become gradient_scale * d loss / d logits in place. The scale is applied
/// before rounding to the dtype of the logits.
struct SoftmaxCrossEntropyArgs {
  static constexpr const char* kName = "softmax_cross_entropy";
  TensorView logits;               // [M, V]
  ConstTensorView targets;         // [M * K] int32; negative = ignored
  ConstTensorView target_weights;  // [M * K] fp32, or undefined: all 1 (K may still be more than 1)
  TensorView loss;                 // [] fp32
  float inv_num_targets = 1.0f;    // usually 1 / (tokens of the global batch)
  float label_smoothing = 0.0f;    // in [0, 1)
  ConstTensorView gradient_scale;  // [] fp32, or undefined: 1. The loss scale; not applied to `loss`
  bool write_gradient = false;
  std::int64_t logits_pitch = 0;  // as MatmulArgs::a_pitch; elements behind the V of a row are not read
};
template <class Visit>
void visit_views(SoftmaxCrossEntropyArgs& args, Visit visit) {
  visit(args.logits, args.write_gradient ? ViewUse::kUpdate : ViewUse::kRead);
  visit_each<ViewUse::kRead>(visit, args.targets, args.target_weights, args.gradient_scale);
  visit_each<ViewUse::kWrite>(visit, args.loss);
}

/// out = a + b; out may be a or b.
struct AddArgs {
  static constexpr const char* kName = "add";
  ConstTensorView a, b;
  TensorView out;
};
template <class Visit>
void visit_views(AddArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.a, args.b);
  visit_each<ViewUse::kWrite>(visit, args.out);
}

/// y = x - center in y's dtype, rounded to nearest, ties to even.
struct CastArgs {
  static constexpr const char* kName = "cast";
  ConstTensorView x;
  TensorView y;
  float center = 0.0f;
};
template <class Visit>
void visit_views(CastArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.x);
  visit_each<ViewUse::kWrite>(visit, args.y);
}

/// Codes of x, where the kernel that computed x did not write them.
struct QuantizeArgs {
  static constexpr const char* kName = "quantize";
  ConstTensorView x;  // [M, C]
  CodesOutput out;
};
template <class Visit>
void visit_views(QuantizeArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.x);
  visit_codes(args.out, visit);
}

/// y = the numbers of NF4 codes, rounded to y's dtype: see [Note: nf4] in runtime/base/nf4.h.
struct DequantizeNf4Args {
  static constexpr const char* kName = "dequantize_nf4";
  ConstTensorView codes;        // [(n + 1) / 2] uint8
  ConstTensorView scale_codes;  // uint8, one per block
  ConstTensorView scales;       // [num_nf4_scales(n)] fp32
  TensorView y;                 // n elements
};
template <class Visit>
void visit_views(DequantizeNf4Args& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.codes, args.scale_codes, args.scales);
  visit_each<ViewUse::kWrite>(visit, args.y);
}

/// x *= *factor for a factor on the device, or x *= constant.
struct ScaleArgs {
  static constexpr const char* kName = "scale";
  TensorView x;
  ConstTensorView factor;  // [] fp32, or undefined: it is `constant`
  float constant = 1.0f;
};
template <class Visit>
void visit_views(ScaleArgs& args, Visit visit) {
  visit_each<ViewUse::kUpdate>(visit, args.x);
  visit_each<ViewUse::kRead>(visit, args.factor);
}

/// The ops of this file, in the order of their structs.
using FeatureOps =
    OpList<MatmulArgs, ColumnSumArgs, ActivationFwdArgs, ActivationBwdArgs, LayerNormFwdArgs,
           LayerNormBwdArgs, AttentionFwdArgs, AttentionBwdArgs, AttentionCachedArgs, RopeFwdArgs,
           RopeBwdArgs, SwigluFwdArgs, SwigluBwdArgs, EmbeddingFwdArgs, EmbeddingBwdArgs, GatherTargetsArgs,
           ScatterTargetsArgs, DropoutArgs, SoftmaxCrossEntropyArgs, AddArgs, CastArgs, QuantizeArgs,
           DequantizeNf4Args, ScaleArgs>;

}  // namespace trireme
