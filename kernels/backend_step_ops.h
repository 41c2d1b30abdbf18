// Arguments of the ops at the end of a step: gradient norm, loss scale, optimizers, running statistics.
// Contracts: see [Note: kernel contracts] in backend.h.
#pragma once

#include <cstdint>

#include "kernels/op_table.h"

namespace trireme {

// [Note: gradient norm] Squares are summed in fixed blocks of kNormBlock elements. Every parameter starts at
// a multiple of kNormBlock, so the blocks and their order of addition are the same for every sharding.
inline constexpr std::int64_t kNormBlock = 1024;

/// partials[i] = sum of squares of x[i * kNormBlock ...), in a fixed order, in fp32.
struct SquaredNormBlocksArgs {
  static constexpr const char* kName = "squared_norm_blocks";
  ConstTensorView x;    // [n], n a multiple of kNormBlock
  TensorView partials;  // [n / kNormBlock] fp32
};
template <class Visit>
void visit_views(SquaredNormBlocksArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.x);
  visit_each<ViewUse::kWrite>(visit, args.partials);
}

/// divisor = max(1, sum of counts) * inv_num_targets, or 1 if inv_num_targets is 0; losses = losses /
/// divisor. Counts are whole numbers below 2^24, and their sum is exact. See [Note: counted losses].
struct DivideLossesArgs {
  static constexpr const char* kName = "divide_losses";
  ConstTensorView counted;  // [R, 2, M] fp32: M losses and M counts of each data rank
  TensorView losses;        // [R * M] fp32
  TensorView divisor;       // [] fp32
  float inv_num_targets = 1.0f;
};
template <class Visit>
void visit_views(DivideLossesArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.counted);
  visit_each<ViewUse::kWrite>(visit, args.losses, args.divisor);
}

/// With s = *gradient_scale * *divisor, the loss scale and the divisor of the loss that the gradients still
/// carry: norm = sqrt(sum of partials, in order, in fp64) / s; clip = min(1, max_norm / (norm + 1e-6)) / s,
/// or 1 / s when max_norm <= 0. clip * gradient is therefore both unscaled and clipped. Non-finite partials
/// give a non-finite norm.
struct ClipCoefficientArgs {
  static constexpr const char* kName = "clip_coefficient";
  ConstTensorView partials;  // [k] fp32
  TensorView norm, clip;     // [] fp32
  float max_norm = 0.0f;
  ConstTensorView gradient_scale;  // [] fp32, or undefined: 1
  ConstTensorView divisor;         // [] fp32, or undefined: 1; of DivideLossesArgs
};
template <class Visit>
void visit_views(ClipCoefficientArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.partials, args.gradient_scale, args.divisor);
  visit_each<ViewUse::kWrite>(visit, args.norm, args.clip);
}

/// Updates the loss scale and decides on the device whether the step is skipped (GradScaler's rule,
/// Micikevicius et al. 2018):
///   skip = norm is not finite
///   skip:  skipped_in_a_row += 1, clean_steps = 0, scale *= backoff_factor
///   clean: skipped_in_a_row = 0, step += 1, clean_steps += 1; at growth_interval: scale *= growth_factor
///          (unless that is infinite), clean_steps = 0
/// If `scale` and clean_steps are undefined, only skip, skipped_in_a_row and step are written. A
/// growth_interval of 0 keeps a static scale.
struct UpdateLossScaleArgs {
  static constexpr const char* kName = "update_loss_scale";
  ConstTensorView norm;                                  // [] fp32
  TensorView scale;                                      // [] fp32, or undefined
  TensorView clean_steps, skip, skipped_in_a_row, step;  // [] int32
  float growth_factor = 2.0f, backoff_factor = 0.5f;
  std::int32_t growth_interval = 2000;
};
template <class Visit>
void visit_views(UpdateLossScaleArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.norm);
  visit_each<ViewUse::kUpdate>(visit, args.scale, args.clean_steps);
  visit_each<ViewUse::kWrite>(visit, args.skip);
  visit_each<ViewUse::kUpdate>(visit, args.skipped_in_a_row, args.step);
}

/// AdamW (Loshchilov & Hutter 2019), decoupled decay, bias-corrected:
///   g = clip * grad; m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2
///   p -= lr * decay * p;  p -= lr * (m / (1-b1^t)) / (sqrt(v / (1-b2^t)) + eps)
/// `lr` and `step` live on the device so that a captured step replays with new values.
struct AdamWArgs {
  static constexpr const char* kName = "adamw";
  TensorView param, exp_avg, exp_avg_sq;  // [n] fp32
  ConstTensorView grad;                   // [n] fp32, fp16 or bf16
  TensorView working;  // [n] compute dtype, or undefined when the master is the working copy: p - center
  ConstTensorView lr, clip;  // [] fp32
  ConstTensorView step;      // [] int32: t, 1 for the first update
  ConstTensorView skip;      // [] int32, or undefined; a nonzero value skips all writes
  float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f, weight_decay = 0.0f;
  float working_center = 0.0f;
};
template <class Visit>
void visit_views(AdamWArgs& args, Visit visit) {
  visit_each<ViewUse::kUpdate>(visit, args.param, args.exp_avg, args.exp_avg_sq);
  visit_each<ViewUse::kRead>(visit, args.grad);
  visit_each<ViewUse::kWrite>(visit, args.working);
  visit_each<ViewUse::kRead>(visit, args.lr, args.clip, args.step, args.skip);
}

/// Lion (Chen et al. 2023), decoupled decay:
///   g = clip * grad;  p -= lr * decay * p;  p -= lr * sign(b1 m + (1-b1) g);  m = b2 m + (1-b2) g
/// The sign of 0 is 0; the sign of NaN is NaN.
struct LionArgs {
  static constexpr const char* kName = "lion";
  TensorView param, exp_avg;       // [n] fp32
  ConstTensorView grad;            // [n] fp32, fp16 or bf16
  TensorView working;              // as in AdamWArgs
  ConstTensorView lr, clip, skip;  // likewise
  float beta1 = 0.9f, beta2 = 0.99f, weight_decay = 0.0f;
  float working_center = 0.0f;
};
template <class Visit>
void visit_views(LionArgs& args, Visit visit) {
  visit_each<ViewUse::kUpdate>(visit, args.param, args.exp_avg);
  visit_each<ViewUse::kRead>(visit, args.grad);
  visit_each<ViewUse::kWrite>(visit, args.working);
  visit_each<ViewUse::kRead>(visit, args.lr, args.clip, args.skip);
}

/// SGD with momentum as in PyTorch: g = clip * grad + decay * p; buf = t == 1 ? g : momentum * buf + g;
/// p -= lr * (nesterov ? g + momentum * buf : buf). Without momentum, `momentum_buffer` is undefined.
struct SgdArgs {
  static constexpr const char* kName = "sgd";
  TensorView param, momentum_buffer;  // [n] fp32
  ConstTensorView grad;               // [n] fp32, fp16 or bf16
  TensorView working;
  ConstTensorView lr, clip, step, skip;  // as in AdamWArgs; clip may be undefined: 1
  float momentum = 0.0f, weight_decay = 0.0f;
  float working_center = 0.0f;
  bool nesterov = false;
};
template <class Visit>
void visit_views(SgdArgs& args, Visit visit) {
  visit_each<ViewUse::kUpdate>(visit, args.param, args.momentum_buffer);
  visit_each<ViewUse::kRead>(visit, args.grad);
  visit_each<ViewUse::kWrite>(visit, args.working);
  visit_each<ViewUse::kRead>(visit, args.lr, args.clip, args.step, args.skip);
}

/// Momentum of Muon, and the matrix to orthogonalise (Jordan et al. 2024, as in torch.optim.Muon):
///   g = clip * grad;  m += (1 - momentum) (g - m);  update = nesterov ? g + momentum (m - g) : m
struct MuonMomentumArgs {
  static constexpr const char* kName = "muon_momentum";
  TensorView momentum_buffer;  // [n] fp32
  TensorView update;           // [n] fp32
  ConstTensorView grad;        // [n] fp32, fp16 or bf16
  ConstTensorView clip;        // [] fp32
  ConstTensorView skip;        // [] int32, or undefined; nonzero: buffer unchanged, update = 0
  float momentum = 0.95f;
  bool nesterov = true;
};
template <class Visit>
void visit_views(MuonMomentumArgs& args, Visit visit) {
  visit_each<ViewUse::kUpdate>(visit, args.momentum_buffer);
  visit_each<ViewUse::kWrite>(visit, args.update);
  visit_each<ViewUse::kRead>(visit, args.grad, args.clip, args.skip);
}

/// factor = 1 / max(sqrt(sum of partials, in order, in fp64), epsilon). `partials` come from
/// SquaredNormBlocks.
struct InverseNormArgs {
  static constexpr const char* kName = "inverse_norm";
  ConstTensorView partials;  // [k] fp32
  TensorView factor;         // [] fp32
  float epsilon = 1e-7f;
};
template <class Visit>
void visit_views(InverseNormArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.partials);
  visit_each<ViewUse::kWrite>(visit, args.factor);
}

/// y = scale * x + identity * I. y may be x.
struct ScaleAddIdentityArgs {
  static constexpr const char* kName = "scale_add_identity";
  ConstTensorView x;  // [m, m] fp32
  TensorView y;       // [m, m] fp32
  float scale = 1.0f, identity = 0.0f;
};
template <class Visit>
void visit_views(ScaleAddIdentityArgs& args, Visit visit) {
  visit_each<ViewUse::kRead>(visit, args.x);
  visit_each<ViewUse::kWrite>(visit, args.y);
}

/// value = (1 - momentum) value + momentum sample. With `step` t, 1 - momentum is multiplied by 1 - exp(-t /
/// tau).
struct MoveAverageArgs {
  static constexpr const char* kName = "move_average";
  TensorView value;        // [n] fp32
  ConstTensorView sample;  // [n] fp32
  float momentum = 0.1f;
  ConstTensorView skip;  // [] int32, or undefined; a nonzero value skips all writes
  ConstTensorView step;  // [] int32, or undefined
  double tau = 0.0;      // > 0 with step
};
template <class Visit>
void visit_views(MoveAverageArgs& args, Visit visit) {
  visit_each<ViewUse::kUpdate>(visit, args.value);
  visit_each<ViewUse::kRead>(visit, args.sample, args.skip, args.step);
}

/// Appends the maxima of a step to the histories of fp8 operands: see [Note: fp8] in runtime/base/fp8.h. With
/// E = kFp8HistoryElems, history i gets the largest value over all samples in column `first_column` + i E.
struct MoveMaximaArgs {
  static constexpr const char* kName = "move_maxima";
  TensorView histories;     // [n, E] fp32
  ConstTensorView samples;  // [micro-batches, columns] fp32
  std::int64_t first_column = 0;
  TensorView num_clipped;  // [] int32: += number of histories whose tensor was clipped in this step
  ConstTensorView skip;    // [] int32, or undefined; a nonzero value skips all writes
};
template <class Visit>
void visit_views(MoveMaximaArgs& args, Visit visit) {
  visit_each<ViewUse::kUpdate>(visit, args.histories, args.num_clipped);
  visit_each<ViewUse::kRead>(visit, args.samples, args.skip);
}

/// The ops of this file, in the order of their structs.
using StepOps = OpList<SquaredNormBlocksArgs, DivideLossesArgs, ClipCoefficientArgs, UpdateLossScaleArgs,
                       AdamWArgs, LionArgs, SgdArgs, MuonMomentumArgs, InverseNormArgs, ScaleAddIdentityArgs,
                       MoveAverageArgs, MoveMaximaArgs>;

}  // namespace trireme
