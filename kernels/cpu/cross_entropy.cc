#include <algorithm>
#include <cassert>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/ops.h"

namespace trireme::cpu {

void softmax_cross_entropy(const KernelContext& exec, const SoftmaxCrossEntropyArgs& args) {
  check_one_float_type("softmax_cross_entropy", {args.logits});
  check_fp32("softmax_cross_entropy", {args.loss, args.gradient_scale});
  const std::int64_t cols = args.logits.shape.dim(-1), rows = args.logits.num_elems() / cols;
  assert(args.targets.num_elems() == rows);
  const std::int32_t* targets = args.targets.as<std::int32_t>();
  const float gradient_scale = args.gradient_scale.defined() ? *args.gradient_scale.as<float>() : 1.0f;
  const Workspace row_losses(exec, std::max<std::int64_t>(1, rows));
  const ThreadScratch scratch(exec, args.logits.dtype == DType::kFloat32 ? 0 : cols);
  for_each_piece(exec, rows, rows * cols * 8, [&](std::int64_t m) {
    assert(targets[m] < cols);
    float* row = place(args.logits, m * cols, scratch.mine());
    if (targets[m] >= 0) {
      read(args.logits, m * cols, cols, row);
      row_losses.data()[m] = numerics().cross_entropy->row(
          row, cols, targets[m], args.loss_scale * gradient_scale, args.write_gradient);
    } else {
      row_losses.data()[m] = 0.0f;
      if (args.write_gradient) std::fill_n(row, cols, 0.0f);
    }
    if (args.write_gradient) write(args.logits, m * cols, cols, row);
  });
  double sum = 0.0;
  for (std::int64_t m = 0; m < rows; ++m) sum += row_losses.data()[m];
  *args.loss.as<float>() = static_cast<float>(args.loss_scale * sum);
}

}  // namespace trireme::cpu
