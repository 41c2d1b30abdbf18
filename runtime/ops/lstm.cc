#include "runtime/ops/lstm.h"

#include "runtime/base/error.h"
#include "runtime/deferred_gradients.h"
#include "runtime/ops/cast.h"
#include "runtime/ops/linear.h"
#include "runtime/tape.h"

namespace trireme::ops {
namespace {

/// dW_hh as one product over all steps.
struct LstmParameterGradients {
  Tensor dgates, h, h0;
  ParamRef w_hh, b_hh;
  MathMode math = MathMode::kFp32;

  void run(Context& ctx) const {
    const GradientTarget dbias = ctx.parameters->gradient(b_hh), dweight = ctx.parameters->gradient(w_hh);
    if (dweight.mode == GradientMode::kIgnore) {
      if (dbias.mode == GradientMode::kIgnore) return;
      return ctx.run(ColumnSumArgs{.x = dgates.rows(), .out = dbias.tensor, .mode = dbias.mode});
    }
    const Tensor h_before = ctx.empty(h.shape(), h.dtype());
    ctx.run(ShiftStepsArgs{.x = h, .first = h0, .y = h_before});
    ctx.run(MatmulArgs{.a = dgates.rows(),
                       .b = h_before.rows(),
                       .d = dweight.tensor,
                       .transpose_a = Transpose::kYes,
                       .math = math,
                       .mode = dweight.mode,
                       .bias_grad = dbias.view(),
                       .bias_grad_mode = dbias.mode});
  }
};

struct LstmBackward {
  Tensor gates, h, c;
  ValueId input_gates = kNoValue;
  LstmState initial;
  ParamRef w_hh, b_hh;
  MathMode math = MathMode::kFp32;

  std::string name() const { return "lstm"; }
  std::vector<Tensor> saved() const {
    std::vector<Tensor> tensors{gates, h, c};
    if (initial.h.defined()) tensors.push_back(initial.h);
    if (initial.c.defined()) tensors.push_back(initial.c);
    return tensors;
  }

  void backward(Context& ctx, Gradients& gradients, ValueId y) {
    const Tensor dh = gradients.take(y), w = parameter(ctx, w_hh, h.dtype());
    const Tensor dgates = gates.unique() ? gates : ctx.empty(gates.shape(), gates.dtype());
    const Shape state{h.shape().dim(0), h.shape().dim(2)};
    const Tensor dh0 = initial.h.id() != kNoValue ? ctx.empty(state, h.dtype()) : Tensor();
    const Tensor dc0 = initial.c.id() != kNoValue ? ctx.empty(state) : Tensor();
    ctx.run(LstmBwdArgs{.gates = gates,
                        .c = c,
                        .dh = dh,
                        .w_hh = w,
                        .c0 = initial.c,
                        .dgates = dgates,
                        .dh0 = dh0,
                        .dc0 = dc0,
                        .math = math});
    run_or_defer(ctx,
                 LstmParameterGradients{
                     .dgates = dgates, .h = h, .h0 = initial.h, .w_hh = w_hh, .b_hh = b_hh, .math = math});
    if (dh0.defined()) gradients.add(ctx, initial.h.id(), dh0);
    if (dc0.defined()) gradients.add(ctx, initial.c.id(), dc0);
    gradients.add(ctx, input_gates, dgates);
  }
};

void check_shapes(const Tensor& x, const Tensor& w, const Tensor& bias, const Shape& gates,
                  const LstmState& initial) {
  const std::int64_t units = w.shape().dim(-1);
  TRIREME_CHECK(w.shape() == Shape({4 * units, units}) && bias.shape() == Shape{4 * units} &&
                    gates.dim(-1) == 4 * units,
                "lstm: w_hh {} and b_hh {} do not fit {} rows of w_ih (want [4H, H], [4H] and 4H)",
                w.shape().to_string(), bias.shape().to_string(), gates.dim(-1));
  const Shape state{x.shape().dim(0), units};
  for (const Tensor& tensor : {initial.h, initial.c}) {
    TRIREME_CHECK(!tensor.defined() || tensor.shape() == state,
                  "lstm: initial state {} does not fit {} samples of {} units", tensor.shape().to_string(),
                  state.dim(0), units);
  }
}

}  // namespace

LstmResult lstm(Context& ctx, const Tensor& x, const LstmParameters& parameters, const LstmState& initial) {
  TRIREME_CHECK(x.shape().rank() == 3 && x.shape().dim(1) >= 1,
                "lstm: input {} is not [B, T, I] with at least one step", x.shape().to_string());
  TRIREME_CHECK(ctx.parameters->adapter(parameters.w_hh) == nullptr,
                "lstm: a recurrent weight has no adapter; adapt w_ih alone");
  Tensor gates = linear(ctx, x, parameters.w_ih, {.bias = parameters.b_ih});
  const DType dtype = ctx.precision.dtype_of(OpKind::kLstm, gates.dtype());
  gates = cast(ctx, gates, dtype);
  const Tensor w = parameter(ctx, parameters.w_hh, dtype), bias = parameter(ctx, parameters.b_hh, dtype);
  check_shapes(x, w, bias, gates.shape(), initial);
  LstmState first;
  if (initial.h.defined()) first.h = cast(ctx, initial.h, dtype);
  if (initial.c.defined()) first.c = cast(ctx, initial.c, DType::kFloat32);
  const std::int64_t units = w.shape().dim(1);
  const Shape shape = x.shape().with_last(units), state{shape.dim(0), units};
  const Tensor h = ctx.empty(shape, dtype), c = ctx.empty(shape);
  const LstmState last{ctx.empty(state, dtype), ctx.empty(state)};
  const MathMode math = ctx.precision.math_of(OpKind::kLstm);
  ctx.run(LstmFwdArgs{.x = gates,
                      .w_hh = w,
                      .bias = bias,
                      .h0 = first.h,
                      .c0 = first.c,
                      .h = h,
                      .c = c,
                      .gates = gates,  // in place: no other op reads the argument of the activations
                      .h_n = last.h,
                      .c_n = last.c,
                      .math = math});
  const ValueId input_gates = gates.id();
  const Tensor output = recorded(ctx, h,
                                 LstmBackward{.gates = std::move(gates),
                                              .h = h,
                                              .c = c,
                                              .input_gates = input_gates,
                                              .initial = first,
                                              .w_hh = parameters.w_hh,
                                              .b_hh = parameters.b_hh,
                                              .math = math});
  return {output, last};
}

}  // namespace trireme::ops
