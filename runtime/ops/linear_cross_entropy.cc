#include "runtime/ops/linear_cross_entropy.h"

#include <algorithm>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/deferred_gradients.h"
#include "runtime/ops/cast.h"
#include "runtime/ops/cross_entropy.h"
#include "runtime/ops/linear.h"
#include "runtime/ops/linear_gradients.h"
#include "runtime/saved_tensor.h"
#include "runtime/tape.h"

namespace trireme::ops {
namespace {

// Rows of logits in memory: `vocab` elements each, `pitch` apart.
struct Logits {
  Tensor memory;  // [rows, pitch]
  std::int64_t vocab = 0;

  std::int64_t pitch() const { return memory.shape()[1]; }
  std::int64_t pitch_arg() const { return pitch() == vocab ? 0 : pitch(); }
  TensorView rows(std::int64_t count) const { return {memory.address(), memory.dtype(), {count, vocab}}; }
  TensorView rows() const { return rows(memory.shape()[0]); }
};

// Shorter rows gain less than their distances cost.
constexpr std::int64_t kFewestAligned = 512;

std::int64_t pitch_of(const Backend& backend, std::int64_t vocab) {
  const std::int64_t step = vocab < kFewestAligned ? 1 : backend.logits_alignment;
  return (vocab + step - 1) / step * step;
}

struct HeadParameterGradients {
  Logits dlogits;
  Tensor x;  // [M, K]
  ParamRef weight, bias;
  MathMode math = MathMode::kFp32;

  void run(Context& ctx) const {
    run(ctx, x, ctx.parameters->gradient(weight),
        bias.defined() ? ctx.parameters->gradient(bias) : GradientTarget{});
  }
  // For the first rows of dlogits, as many as `rows` has.
  void run(Context& ctx, const Tensor& rows, const GradientTarget& dweight,
           const GradientTarget& dbias) const {
    add_linear_gradients(
        ctx, dweight, dbias,
        {.dy = dlogits.rows(rows.shape()[0]), .x = rows, .dy_pitch = dlogits.pitch_arg(), .math = math});
  }
};

// The operands of a head, in the dtype of its products.
struct Head {
  Tensor x;  // [M, K]
  Tensor weight, bias;
  ParamRef weight_ref, bias_ref;
  Tensor targets;
  float inv_num_targets = 1.0f;
  MathMode math = MathMode::kFp32;

  std::int64_t vocab() const { return weight.shape()[0]; }
  Logits memory(const Context& ctx, std::int64_t rows) const {
    return {ctx.empty({rows, pitch_of(*ctx.backend, vocab())}, x.dtype()), vocab()};
  }
  void multiply(Context& ctx, const Tensor& rows, const Logits& logits) const {
    ctx.run(MatmulArgs{.a = rows,
                       .b = weight,
                       .d = logits.rows(rows.shape()[0]),
                       .transpose_b = Transpose::kYes,
                       .math = math,
                       .bias = bias,
                       .d_pitch = logits.pitch_arg()});
  }
  // The loss of rows [first, first + count). With a tape, logits become their gradient.
  Tensor loss(Context& ctx, const Logits& logits, std::int64_t first, std::int64_t count) const {
    const bool record = ctx.tape != nullptr;
    const Tensor out = ctx.empty({});
    ctx.run(SoftmaxCrossEntropyArgs{
        .logits = logits.rows(count),
        .targets = targets.slice(first, {count}),
        .loss = out,
        .inv_num_targets = inv_num_targets,
        .gradient_scale = record ? ctx.gradient_scale.const_view() : ConstTensorView{},
        .write_gradient = record,
        .logits_pitch = logits.pitch_arg()});
    return out;
  }
};

void input_gradient(Context& ctx, const Logits& dlogits, const Tensor& weight, MathMode math,
                    const Tensor& dx) {
  ctx.run(MatmulArgs{
      .a = dlogits.rows(dx.shape()[0]), .b = weight, .d = dx, .math = math, .a_pitch = dlogits.pitch_arg()});
}

struct AllLogitsBackward {
  Logits dlogits;  // for a gradient of 1 at the loss
  SavedTensor x;
  ParamRef weight, bias;
  DType dtype = DType::kFloat32;
  MathMode math = MathMode::kFp32;

  std::string name() const { return "linear_cross_entropy"; }
  std::vector<Tensor> saved() const { return {dlogits.memory, x.kept()}; }

  void backward(Context& ctx, Gradients& gradients, ValueId y) {
    if (!gradients.is_unit(y)) ctx.run(ScaleArgs{.x = dlogits.memory, .factor = gradients.take(y)});
    const Tensor whole = x.take(ctx);
    const std::int64_t rows = whole.shape().num_rows(), width = whole.shape().dim(-1);
    run_or_defer(ctx, HeadParameterGradients{.dlogits = dlogits,
                                             .x = whole.reshape({rows, width}),
                                             .weight = weight,
                                             .bias = bias,
                                             .math = math});
    if (x.id() == kNoValue) return;
    const Tensor dx = ctx.empty(x.shape(), dtype);
    input_gradient(ctx, dlogits, parameter(ctx, weight, dtype), math, dx.reshape({rows, width}));
    gradients.add(ctx, x.id(), dx);
  }
};

Tensor with_all_logits(Context& ctx, const Tensor& input, const Head& head) {
  const std::int64_t rows = head.x.shape()[0];
  const Logits logits = head.memory(ctx, rows);
  head.multiply(ctx, head.x, logits);
  const Tensor loss = head.loss(ctx, logits, 0, rows);
  return recorded(ctx, loss,
                  AllLogitsBackward{.dlogits = logits,
                                    .x = SavedTensor(ctx, input),
                                    .weight = head.weight_ref,
                                    .bias = head.bias_ref,
                                    .dtype = input.dtype(),
                                    .math = head.math});
}

// Adds a gradient that forward has computed.
struct KeptGradient {
  Tensor gradient;  // fp32, or undefined
  ParamRef ref;

  void run(Context& ctx) const {
    if (!gradient.defined()) return;
    const GradientTarget target = ctx.parameters->gradient(ref);
    if (target.mode == GradientMode::kOverwrite) ctx.backend->copy(ctx.exec, target.tensor, gradient);
    if (target.mode == GradientMode::kAccumulate) {
      ctx.run(AddArgs{.a = target.tensor, .b = gradient, .out = target.tensor});
    }
  }
};

struct PartsBackward {
  Tensor dx, dweight, dbias;  // for a gradient of 1 at the loss; undefined where not wanted
  ValueId x = kNoValue;
  ParamRef weight, bias;

  std::string name() const { return "linear_cross_entropy_in_parts"; }
  std::vector<Tensor> saved() const {
    std::vector<Tensor> all{dx, dweight, dbias};
    std::erase_if(all, [](const Tensor& tensor) { return !tensor.defined(); });
    return all;
  }

  void backward(Context& ctx, Gradients& gradients, ValueId y) {
    if (!gradients.is_unit(y)) {
      const Tensor seed = gradients.take(y);
      for (const Tensor& tensor : saved()) ctx.run(ScaleArgs{.x = tensor, .factor = seed});
    }
    run_or_defer(ctx, KeptGradient{std::exchange(dweight, Tensor()), weight});
    run_or_defer(ctx, KeptGradient{std::exchange(dbias, Tensor()), bias});
    if (dx.defined()) gradients.add(ctx, x, std::move(dx));
  }
};

// See [Note: logits in parts].
Tensor in_parts(Context& ctx, const Tensor& input, const Head& head, std::int64_t parts) {
  const std::int64_t rows = head.x.shape()[0], width = head.x.shape()[1];
  const std::int64_t most = (rows + parts - 1) / parts;
  const Logits logits = head.memory(ctx, most);
  PartsBackward backward{.x = input.id(), .weight = head.weight_ref, .bias = head.bias_ref};
  if (ctx.tape != nullptr) {
    if (input.id() != kNoValue) backward.dx = ctx.empty(input.shape(), input.dtype());
    const auto target = [&ctx](ParamRef ref, const Shape& shape) {
      return ref.defined() && ctx.parameters->is_trained(ref) ? ctx.empty(shape) : Tensor();
    };
    backward.dweight = target(head.weight_ref, head.weight.shape());
    backward.dbias = target(head.bias_ref, {head.vocab()});
  }
  const auto kept = [](const Tensor& tensor, std::int64_t first) {
    if (!tensor.defined()) return GradientTarget{};
    return GradientTarget{tensor, first == 0 ? GradientMode::kOverwrite : GradientMode::kAccumulate};
  };
  Tensor loss;
  for (std::int64_t first = 0; first < rows; first += most) {
    const std::int64_t count = std::min(most, rows - first);
    const Tensor x = head.x.slice(first * width, {count, width});
    head.multiply(ctx, x, logits);
    const Tensor part = head.loss(ctx, logits, first, count);
    if (loss.defined()) {
      ctx.run(AddArgs{.a = loss, .b = part, .out = loss});
    } else {
      loss = part;
    }
    if (ctx.tape == nullptr) continue;
    if (backward.dx.defined()) {
      input_gradient(ctx, logits, head.weight, head.math, backward.dx.slice(first * width, {count, width}));
    }
    HeadParameterGradients{.dlogits = logits, .x = x, .weight = {}, .bias = {}, .math = head.math}.run(
        ctx, x, kept(backward.dweight, first), kept(backward.dbias, first));
  }
  return recorded(ctx, loss, std::move(backward));
}

}  // namespace

Tensor linear_cross_entropy(Context& ctx, const Tensor& input, ParamRef weight, const Tensor& targets,
                            float inv_num_targets, const LinearCrossEntropyOptions& options) {
  const DType dtype = ctx.precision.dtype_of(OpKind::kLinear, input.dtype());
  const bool one_dtype = ctx.precision.dtype_of(OpKind::kSoftmaxCrossEntropy, dtype) == dtype;
  TRIREME_CHECK(options.parts >= 1, "linear_cross_entropy: {} parts", options.parts);
  if (options.parts > 1 && !one_dtype) {
    throw Error(ErrorCode::kUnsupported,
                "linear_cross_entropy: the loss in {} parts cannot be computed in another dtype than the "
                "product: remove the override of softmax_cross_entropy or of linear, or use one part",
                options.parts);
  }
  const Tensor w = parameter(ctx, weight, dtype);
  TRIREME_CHECK(w.shape().rank() == 2, "linear_cross_entropy: the weight is {}, and must be [V, K]",
                w.shape().to_string());
  if (!one_dtype) {
    return softmax_cross_entropy(ctx, linear(ctx, input, weight, {.bias = options.bias}), targets,
                                 inv_num_targets);
  }
  const Tensor x = cast(ctx, input, dtype);
  const std::int64_t rows = x.shape().num_rows();
  TRIREME_CHECK(
      x.shape().dim(-1) == w.shape()[1] && targets.dtype() == DType::kInt32 && targets.num_elems() == rows &&
          rows > 0,
      "linear_cross_entropy: input {}, weight {} and targets {} {} do not fit (want [..., K], [V, K] "
      "and one int32 target a row)",
      x.shape().to_string(), w.shape().to_string(), name(targets.dtype()), targets.shape().to_string());
  const Head head{.x = x.detach().reshape({rows, w.shape()[1]}),
                  .weight = w,
                  .bias = options.bias.defined() ? parameter(ctx, options.bias, dtype) : Tensor(),
                  .weight_ref = weight,
                  .bias_ref = options.bias,
                  .targets = targets.reshape({rows}),
                  .inv_num_targets = inv_num_targets,
                  .math = ctx.precision.math_of(OpKind::kLinear)};
  return options.parts > 1 ? in_parts(ctx, x, head, options.parts) : with_all_logits(ctx, x, head);
}

}  // namespace trireme::ops
