// The tensors of a call, op by op: one table for whoever counts what a call moves, or calls it on other
// memory.
#pragma once

#include "kernels/backend.h"

namespace trireme {

/// The traffic of a tensor of a call, whatever kernel computes it.
enum class ViewUse : std::uint8_t {
  kRead,
  kReadTwice,  // statistics of all of it are needed before the first result
  kReadRows,   // those that tokens name: as many as the result has
  kWrite,
  kUpdate,  // read and written
};

constexpr ViewUse use_of(GradientMode mode) {
  return mode == GradientMode::kAccumulate ? ViewUse::kUpdate : ViewUse::kWrite;
}

/// visit(view, use) for each of `views`.
template <ViewUse use, class Visit, class... Views>
void each(Visit& visit, Views&... views) {
  (visit(views, use), ...);
}

/// visit(view, use) for every tensor of a call, undefined ones too; the operands that name its size come
/// first. `args` is no const: views may be given other memory.
template <class Visit>
void visit_views(MatmulArgs& args, Visit visit) {
  each<ViewUse::kRead>(visit, args.a, args.b, args.bias, args.residual);
  visit(args.d, use_of(args.mode));
  each<ViewUse::kWrite>(visit, args.pre_activation);
  visit(args.bias_grad, use_of(args.bias_grad_mode));
}
template <class Visit>
void visit_views(ColumnSumArgs& args, Visit visit) {
  each<ViewUse::kRead>(visit, args.x);
  visit(args.out, use_of(args.mode));
}
template <class Visit>
void visit_views(ActivationBwdArgs& args, Visit visit) {
  each<ViewUse::kRead>(visit, args.dy, args.pre);
  each<ViewUse::kWrite>(visit, args.dx);
}
template <class Visit>
void visit_views(LayerNormFwdArgs& args, Visit visit) {
  each<ViewUse::kRead>(visit, args.x, args.gamma, args.beta);
  each<ViewUse::kWrite>(visit, args.y, args.mean, args.rstd);
}
template <class Visit>
void visit_views(LayerNormBwdArgs& args, Visit visit) {
  each<ViewUse::kRead>(visit, args.dy, args.x, args.gamma, args.mean, args.rstd, args.dx_add);
  each<ViewUse::kWrite>(visit, args.dx);
  visit(args.dgamma, use_of(args.dgamma_mode));
  visit(args.dbeta, use_of(args.dbeta_mode));
}
template <class Visit>
void visit_views(AttentionFwdArgs& args, Visit visit) {
  each<ViewUse::kRead>(visit, args.qkv);
  each<ViewUse::kWrite>(visit, args.out, args.lse);
}
template <class Visit>
void visit_views(AttentionBwdArgs& args, Visit visit) {
  each<ViewUse::kRead>(visit, args.qkv, args.dout, args.out, args.lse);
  each<ViewUse::kWrite>(visit, args.dqkv);
}
template <class Visit>
void visit_views(RopeFwdArgs& args, Visit visit) {
  each<ViewUse::kRead>(visit, args.qkv);
  each<ViewUse::kWrite>(visit, args.out);
}
template <class Visit>
void visit_views(RopeBwdArgs& args, Visit visit) {
  each<ViewUse::kRead>(visit, args.dout);
  each<ViewUse::kWrite>(visit, args.dqkv);
}
template <class Visit>
void visit_views(SwigluFwdArgs& args, Visit visit) {
  each<ViewUse::kRead>(visit, args.x);
  each<ViewUse::kWrite>(visit, args.y);
}
template <class Visit>
void visit_views(SwigluBwdArgs& args, Visit visit) {
  each<ViewUse::kRead>(visit, args.dy, args.x);
  each<ViewUse::kWrite>(visit, args.dx);
}
template <class Visit>
void visit_views(EmbeddingFwdArgs& args, Visit visit) {
  each<ViewUse::kRead>(visit, args.tokens);
  each<ViewUse::kReadRows>(visit, args.table, args.positions);
  each<ViewUse::kWrite>(visit, args.x);
}
template <class Visit>
void visit_views(EmbeddingBwdArgs& args, Visit visit) {
  each<ViewUse::kRead>(visit, args.dx, args.tokens);
  visit(args.dtable, use_of(args.dtable_mode));
  visit(args.dpositions, use_of(args.dpositions_mode));
}
template <class Visit>
void visit_views(DropoutArgs& args, Visit visit) {
  each<ViewUse::kRead>(visit, args.x, args.residual);
  each<ViewUse::kWrite>(visit, args.y);
}
template <class Visit>
void visit_views(SoftmaxCrossEntropyArgs& args, Visit visit) {
  visit(args.logits, args.write_gradient ? ViewUse::kUpdate : ViewUse::kRead);
  each<ViewUse::kRead>(visit, args.targets, args.target_weights, args.gradient_scale);
  each<ViewUse::kWrite>(visit, args.loss);
}
template <class Visit>
void visit_views(AddArgs& args, Visit visit) {
  each<ViewUse::kRead>(visit, args.a, args.b);
  each<ViewUse::kWrite>(visit, args.out);
}
template <class Visit>
void visit_views(CastArgs& args, Visit visit) {
  each<ViewUse::kRead>(visit, args.x);
  each<ViewUse::kWrite>(visit, args.y);
}
template <class Visit>
void visit_views(ScaleArgs& args, Visit visit) {
  each<ViewUse::kUpdate>(visit, args.x);
  each<ViewUse::kRead>(visit, args.factor);
}

template <class Visit>
void visit_views(Conv2dFwdArgs& args, Visit visit) {
  each<ViewUse::kRead>(visit, args.x, args.weight, args.bias);
  each<ViewUse::kWrite>(visit, args.y);
}
template <class Visit>
void visit_views(Conv2dBwdDataArgs& args, Visit visit) {
  each<ViewUse::kRead>(visit, args.dy, args.weight, args.dx_add);
  each<ViewUse::kWrite>(visit, args.dx);
}
template <class Visit>
void visit_views(Conv2dBwdWeightArgs& args, Visit visit) {
  each<ViewUse::kRead>(visit, args.dy, args.x);
  visit(args.dweight, use_of(args.mode));
}
template <class Visit>
void visit_views(BatchNormFwdArgs& args, Visit visit) {
  each<ViewUse::kReadTwice>(visit, args.x);
  each<ViewUse::kRead>(visit, args.gamma, args.beta, args.residual);
  each<ViewUse::kWrite>(visit, args.y, args.mean, args.rstd, args.variance);
}
template <class Visit>
void visit_views(BatchNormInferArgs& args, Visit visit) {
  each<ViewUse::kRead>(visit, args.x, args.gamma, args.beta, args.mean, args.variance, args.residual);
  each<ViewUse::kWrite>(visit, args.y);
}
template <class Visit>
void visit_views(BatchNormBwdArgs& args, Visit visit) {
  each<ViewUse::kReadTwice>(visit, args.dy, args.x, args.y);
  each<ViewUse::kRead>(visit, args.gamma, args.beta, args.mean, args.rstd);
  each<ViewUse::kWrite>(visit, args.dx, args.dresidual);
  visit(args.dgamma, use_of(args.dgamma_mode));
  visit(args.dbeta, use_of(args.dbeta_mode));
}
template <class Visit>
void visit_views(ReluArgs& args, Visit visit) {
  each<ViewUse::kRead>(visit, args.x);
  each<ViewUse::kWrite>(visit, args.y);
}
template <class Visit>
void visit_views(ReluBwdArgs& args, Visit visit) {
  each<ViewUse::kRead>(visit, args.dy, args.y);
  each<ViewUse::kWrite>(visit, args.dx);
}
template <class Visit>
void visit_views(MaxPoolFwdArgs& args, Visit visit) {
  each<ViewUse::kRead>(visit, args.x);
  each<ViewUse::kWrite>(visit, args.y, args.place);
}
template <class Visit>
void visit_views(MaxPoolBwdArgs& args, Visit visit) {
  each<ViewUse::kRead>(visit, args.dy, args.place);
  each<ViewUse::kWrite>(visit, args.dx);
}
template <class Visit>
void visit_views(AvgPoolFwdArgs& args, Visit visit) {
  each<ViewUse::kRead>(visit, args.x);
  each<ViewUse::kWrite>(visit, args.y);
}
template <class Visit>
void visit_views(AvgPoolBwdArgs& args, Visit visit) {
  each<ViewUse::kRead>(visit, args.dy);
  each<ViewUse::kWrite>(visit, args.dx);
}

template <class Visit>
void visit_views(SquaredNormBlocksArgs& args, Visit visit) {
  each<ViewUse::kRead>(visit, args.x);
  each<ViewUse::kWrite>(visit, args.partials);
}
template <class Visit>
void visit_views(ClipCoefficientArgs& args, Visit visit) {
  each<ViewUse::kRead>(visit, args.partials, args.gradient_scale);
  each<ViewUse::kWrite>(visit, args.norm, args.clip);
}
template <class Visit>
void visit_views(UpdateLossScaleArgs& args, Visit visit) {
  each<ViewUse::kRead>(visit, args.norm);
  each<ViewUse::kUpdate>(visit, args.scale, args.clean_steps);
  each<ViewUse::kWrite>(visit, args.skip);
  each<ViewUse::kUpdate>(visit, args.skipped_in_a_row, args.step);
}
template <class Visit>
void visit_views(AdamWArgs& args, Visit visit) {
  each<ViewUse::kUpdate>(visit, args.param, args.exp_avg, args.exp_avg_sq);
  each<ViewUse::kRead>(visit, args.grad);
  each<ViewUse::kWrite>(visit, args.working);
  each<ViewUse::kRead>(visit, args.lr, args.clip, args.step, args.skip);
}
template <class Visit>
void visit_views(SgdArgs& args, Visit visit) {
  each<ViewUse::kUpdate>(visit, args.param, args.momentum_buffer);
  each<ViewUse::kRead>(visit, args.grad);
  each<ViewUse::kWrite>(visit, args.working);
  each<ViewUse::kRead>(visit, args.lr, args.clip, args.step, args.skip);
}
template <class Visit>
void visit_views(MoveAverageArgs& args, Visit visit) {
  each<ViewUse::kUpdate>(visit, args.value);
  each<ViewUse::kRead>(visit, args.sample, args.skip);
}

}  // namespace trireme
