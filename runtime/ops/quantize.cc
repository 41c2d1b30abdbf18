#include "runtime/ops/quantize.h"

#include "runtime/base/error.h"

namespace trireme::ops {
namespace {

bool has(CodeOrder order, CodeOrder part) {
  return (static_cast<int>(order) & static_cast<int>(part)) != 0;
}

}  // namespace

bool multiplies_in_fp8(Context& ctx, ParamRef weight) {
  return ctx.statistics != nullptr && ctx.statistics->maxima(weight, Fp8Operand::kWeight).has_value();
}

Fp8Codes empty_codes(Context& ctx, const Shape& shape, Fp8Operand operand, CodeOrder order) {
  const DType format = operand == Fp8Operand::kOutputGradient ? DType::kE5m2 : DType::kE4m3;
  Fp8Codes codes{.codes = {}, .turned = {}, .inverse_scale = ctx.empty({})};
  if (has(order, CodeOrder::kRows)) codes.codes = ctx.empty(shape, format);
  if (has(order, CodeOrder::kTurned)) codes.turned = ctx.empty({shape.dim(-1), shape.num_rows()}, format);
  return codes;
}

CodesOutput output_to(Context& ctx, const Fp8Codes& codes, ParamRef weight, Fp8Operand operand) {
  const auto maxima = ctx.statistics->maxima(weight, operand);
  TRIREME_CHECK(maxima, "quantize: the weight of parameter {} is in no fp8 product", weight.index);
  CodesOutput out{.history = maxima->history,
                  .codes = {},
                  .turned = codes.turned,
                  .inverse_scale = codes.inverse_scale,
                  .amax = maxima->sample};
  if (codes.codes.defined()) out.codes = codes.codes.rows();
  return out;
}

Fp8Codes quantize(Context& ctx, const Tensor& x, ParamRef weight, Fp8Operand operand, CodeOrder order) {
  const Fp8Codes codes = empty_codes(ctx, x.shape(), operand, order);
  ctx.run(QuantizeArgs{.x = x.rows(), .out = output_to(ctx, codes, weight, operand)});
  return codes;
}

Fp8Codes weight_codes(Context& ctx, const Tensor& w, ParamRef weight, CodeOrder order) {
  Fp8Codes* const kept = ctx.statistics->kept_codes(weight);
  if (kept == nullptr) return quantize(ctx, w, weight, Fp8Operand::kWeight, order);
  const bool is_rows = order == CodeOrder::kRows;
  if (!(is_rows ? kept->codes : kept->turned).defined()) {
    const Fp8Codes made = quantize(ctx, w, weight, Fp8Operand::kWeight, order);
    (is_rows ? kept->codes : kept->turned) = is_rows ? made.codes : made.turned;
    kept->inverse_scale = made.inverse_scale;
  }
  return *kept;
}

}  // namespace trireme::ops
