#include "runtime/ops/linear_gradients.h"

namespace trireme::ops {

void add_linear_gradients(Context& ctx, const GradientTarget& dweight, const GradientTarget& dbias,
                          const LinearGradientArgs& args) {
  if (dweight.mode == GradientMode::kIgnore) {
    if (dbias.mode == GradientMode::kIgnore) return;
    return ctx.run(
        ColumnSumArgs{.x = args.dy, .out = dbias.tensor, .mode = dbias.mode, .x_pitch = args.dy_pitch});
  }
  const bool turned = args.x_inverse_scale.defined();
  ctx.run(MatmulArgs{.a = args.dy,
                     .b = args.x,
                     .d = dweight.tensor,
                     .transpose_a = turned ? Transpose::kNo : Transpose::kYes,
                     .transpose_b = turned ? Transpose::kYes : Transpose::kNo,
                     .math = args.math,
                     .mode = dweight.mode,
                     .bias_grad = dbias.view(),
                     .bias_grad_mode = dbias.mode,
                     .a_inverse_scale = args.dy_inverse_scale,
                     .b_inverse_scale = args.x_inverse_scale,
                     .a_pitch = args.dy_pitch});
}

}  // namespace trireme::ops
