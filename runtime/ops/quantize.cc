#include "runtime/ops/quantize.h"

#include "runtime/base/error.h"

namespace trireme::ops {

bool multiplies_in_fp8(Context& ctx, ParamRef weight) {
  return ctx.statistics != nullptr && ctx.statistics->maxima(weight, Fp8Operand::kWeight).has_value();
}

Quantized quantize(Context& ctx, const Tensor& x, ParamRef weight, Fp8Operand operand) {
  const auto maxima = ctx.statistics->maxima(weight, operand);
  TRIREME_CHECK(maxima, "quantize: the weight of parameter {} is in no fp8 product", weight.index);
  const DType format = operand == Fp8Operand::kOutputGradient ? DType::kE5m2 : DType::kE4m3;
  const Quantized y{.codes = ctx.empty(x.shape(), format), .inverse_scale = ctx.empty({})};
  ctx.run(QuantizeArgs{.x = x,
                       .history = maxima->history,
                       .y = y.codes,
                       .inverse_scale = y.inverse_scale,
                       .amax = maxima->sample});
  return y;
}

}  // namespace trireme::ops
