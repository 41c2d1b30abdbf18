#include <cassert>

#include "kernels/cpu/launch.h"
#include "kernels/cpu/numerics.h"
#include "kernels/cpu/ops.h"

namespace trireme::cpu {
namespace {

// Rows of one piece. In backward each piece sums its rows' gamma and beta gradients on its own, and the
// pieces are added in order.
constexpr std::int64_t kFwdRows = 16;
constexpr std::int64_t kBwdRows = 64;

void finish(const float* partials, std::int64_t pieces, std::int64_t pitch, TensorView out, GradientMode mode,
            std::int64_t first, std::int64_t count) {
  if (mode == GradientMode::kIgnore) return;
  float* sum = out.as<float>() + first;
  if (mode == GradientMode::kOverwrite) std::fill_n(sum, count, 0.0f);
  for (std::int64_t p = 0; p < pieces; ++p) {
    numerics().elementwise->add(sum, partials + p * pitch + first, sum, count);
  }
}

}  // namespace

void layer_norm_fwd(const KernelContext& exec, const LayerNormFwdArgs& args) {
  check_fp32("layer_norm_fwd", {args.x, args.gamma, args.beta, args.y, args.mean, args.rstd});
  const std::int64_t cols = args.gamma.num_elems(), rows = args.mean.num_elems();
  assert(args.x.num_elems() == rows * cols && args.y.num_elems() == rows * cols);
  for_each_piece(exec, ceil_div(rows, kFwdRows), rows * cols, [&](std::int64_t piece) {
    const std::int64_t first = piece * kFwdRows;
    numerics().layer_norm->fwd({.x = args.x.as<float>() + first * cols,
                                .gamma = args.gamma.as<float>(),
                                .beta = args.beta.as<float>(),
                                .y = args.y.as<float>() + first * cols,
                                .mean = args.mean.as<float>() + first,
                                .rstd = args.rstd.as<float>() + first,
                                .rows = std::min(kFwdRows, rows - first),
                                .cols = cols,
                                .epsilon = args.epsilon});
  });
}

void layer_norm_bwd(const KernelContext& exec, const LayerNormBwdArgs& args) {
  check_fp32("layer_norm_bwd", {args.dy, args.x, args.gamma, args.mean, args.rstd, args.dx_add, args.dx,
                                args.dgamma, args.dbeta});
  const std::int64_t cols = args.gamma.num_elems(), rows = args.mean.num_elems();
  assert(args.x.num_elems() == rows * cols && args.dx.num_elems() == rows * cols);
  const std::int64_t pieces = ceil_div(rows, kBwdRows);
  const Workspace partials(exec, std::max<std::int64_t>(1, pieces * 2 * cols));
  for_each_piece(exec, pieces, rows * cols, [&](std::int64_t piece) {
    const std::int64_t first = piece * kBwdRows;
    float* sums = partials.data() + piece * 2 * cols;
    numerics().layer_norm->bwd(
        {.dy = args.dy.as<float>() + first * cols,
         .x = args.x.as<float>() + first * cols,
         .gamma = args.gamma.as<float>(),
         .mean = args.mean.as<float>() + first,
         .rstd = args.rstd.as<float>() + first,
         .dx_add = args.dx_add.defined() ? args.dx_add.as<float>() + first * cols : nullptr,
         .dx = args.dx.as<float>() + first * cols,
         .dgamma = sums,
         .dbeta = sums + cols,
         .rows = std::min(kBwdRows, rows - first),
         .cols = cols});
  });
  for_each_column_range(exec, cols, pieces * 2 * cols, [&](std::int64_t first, std::int64_t count) {
    finish(partials.data(), pieces, 2 * cols, args.dgamma, args.dgamma_mode, first, count);
    finish(partials.data() + cols, pieces, 2 * cols, args.dbeta, args.dbeta_mode, first, count);
  });
}

}  // namespace trireme::cpu
