#include <algorithm>
#include <cassert>
#include <limits>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/ops.h"

namespace trireme::cpu {
namespace {

/// The targets of a row.
struct Targets {
  explicit Targets(const SoftmaxCrossEntropyArgs& args, std::int64_t rows)
      : targets(args.targets.as<std::int32_t>()),
        weights(args.target_weights.as<float>()),
        count(args.targets.num_elems() / rows),
        smoothing(args.label_smoothing) {}

  bool one_hot() const { return count == 1 && weights == nullptr && smoothing == 0.0f; }
  bool ignored(std::int64_t row) const {
    return std::all_of(targets + row * count, targets + (row + 1) * count,
                       [](std::int32_t t) { return t < 0; });
  }
  float loss(float* logits, std::int64_t cols, std::int64_t row, float scale, bool write_gradient) const {
    const CrossEntropyNumerics& of = *numerics().cross_entropy;
    if (one_hot()) return of.row(logits, cols, targets[row], scale, write_gradient);
    const SoftTargets soft{.targets = targets + row * count,
                           .weights = weights != nullptr ? weights + row * count : nullptr,
                           .count = count,
                           .smoothing = smoothing};
    return of.soft_row(logits, cols, soft, scale, write_gradient);
  }

  const std::int32_t* targets;
  const float* weights;  // or null
  std::int64_t count;    // per row
  float smoothing;
};

}  // namespace

void run_op(const KernelContext& exec, const SoftmaxCrossEntropyArgs& args) {
  check_one_float_type("softmax_cross_entropy", {args.logits});
  check_fp32("softmax_cross_entropy", {args.loss, args.gradient_scale, args.target_weights});
  const std::int64_t cols = args.logits.shape.dim(-1), rows = args.logits.num_elems() / cols;
  const std::int64_t pitch = args.logits_pitch > 0 ? args.logits_pitch : cols;
  assert(rows == 0 || args.targets.num_elems() % rows == 0);
  // The lowest int32 is allowed: any negative target is an ignored one.
  check_indices({.op = "softmax_cross_entropy",
                 .what = "target",
                 .lowest = std::numeric_limits<std::int32_t>::min(),
                 .count = cols},
                args.targets);
  const Targets targets(args, std::max<std::int64_t>(1, rows));
  const float gradient_scale = args.gradient_scale.defined() ? *args.gradient_scale.as<float>() : 1.0f;
  const Workspace row_losses(exec, std::max<std::int64_t>(1, rows));
  const ThreadScratch scratch(exec, args.logits.dtype == DType::kFloat32 ? 0 : cols);
  for_each_piece(exec, rows, rows * cols * 8, [&](std::int64_t m) {
    float* row = place(args.logits, m * pitch, scratch.mine());
    if (!targets.ignored(m)) {
      read(args.logits, m * pitch, cols, row);
      row_losses.data()[m] =
          targets.loss(row, cols, m, args.inv_num_targets * gradient_scale, args.write_gradient);
    } else {
      row_losses.data()[m] = 0.0f;
      if (args.write_gradient) std::fill_n(row, cols, 0.0f);
    }
    if (args.write_gradient) write(args.logits, m * pitch, cols, row);
  });
  double sum = 0.0;
  for (std::int64_t m = 0; m < rows; ++m) sum += row_losses.data()[m];
  *args.loss.as<float>() = static_cast<float>(args.inv_num_targets * sum);
}

}  // namespace trireme::cpu
