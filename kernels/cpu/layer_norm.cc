#include <algorithm>
#include <cassert>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/ops.h"

namespace trireme::cpu {
namespace {

// Rows of one piece. In backward, each piece sums its rows' gamma and beta gradients separately. The pieces
// are added in order.
constexpr std::int64_t kFwdRows = 16;
constexpr std::int64_t kBwdRows = 64;

// Rows per call of the numerics. 16-bit rows are converted one at a time, so that they stay in cache.
std::int64_t rows_at_once(DType dtype) {
  return dtype == DType::kFloat32 ? kBwdRows : 1;
}

void finish(const float* partials, std::int64_t pieces, std::int64_t pitch, TensorView out, GradientMode mode,
            std::int64_t first, std::int64_t count) {
  if (mode == GradientMode::kIgnore) return;
  float* sum = out.as<float>() + first;
  if (mode == GradientMode::kOverwrite) std::fill_n(sum, count, 0.0f);
  for (std::int64_t p = 0; p < pieces; ++p) {
    numerics().elementwise->add(sum, partials + p * pitch + first, sum, count);
  }
}

// Adds the sums over rows [first, first + rows): dgamma's to sums[0 .. cols), dbeta's to sums[cols ..).
void bwd_rows(const LayerNormBwdArgs& args, const float* gamma, std::int64_t first, std::int64_t rows,
              std::int64_t cols, float* scratch, float* sums) {
  const std::int64_t at = first * cols, count = rows * cols;
  const float* dy = read(args.dy, at, count, scratch);
  float* dx = place(args.dx, at, scratch);
  const LayerNormNumerics& norms = *numerics().layer_norm;
  const auto bwd = args.mean.defined() ? norms.bwd : norms.rms_bwd;
  bwd({.dy = dy,
       .x = read(args.x, at, count, scratch + cols),
       .gamma = gamma,
       .mean = args.mean.defined() ? args.mean.as<float>() + first : nullptr,
       .rstd = args.rstd.as<float>() + first,
       .dx_add = read(args.dx_add, at, count, scratch + 2 * cols),
       .dx = dx,
       .dgamma = sums,
       .dbeta = sums + cols,
       .rows = rows,
       .cols = cols});
  write(args.dx, at, count, dx);
}

}  // namespace

void run_op(const KernelContext& exec, const LayerNormFwdArgs& args) {
  check_one_float_type("layer_norm_fwd", {args.x, args.gamma, args.beta, args.y});
  check_fp32("layer_norm_fwd", {args.mean, args.rstd});
  const std::int64_t cols = args.gamma.num_elems(), rows = args.rstd.num_elems();
  assert(args.x.num_elems() == rows * cols && args.y.num_elems() == rows * cols);
  assert(args.mean.defined() == args.beta.defined());
  const bool converts = args.x.dtype != DType::kFloat32;
  const bool changes_gamma = converts || args.gamma_center != 0.0f;
  const ThreadScratch row(exec, converts ? cols : 0), gains(exec, changes_gamma ? cols : 0, 1),
      shifts(exec, converts ? cols : 0, 1);
  const float* gamma = shifted(read(args.gamma, 0, cols, gains.of(0)), args.gamma_center, cols, gains.of(0));
  const float* beta = read(args.beta, 0, cols, shifts.of(0));
  const auto fwd = args.mean.defined() ? numerics().layer_norm->fwd : numerics().layer_norm->rms_fwd;
  for_each_piece(exec, ceil_div(rows, kFwdRows), rows * cols, [&](std::int64_t piece) {
    const std::int64_t end = std::min(rows, (piece + 1) * kFwdRows);
    const std::int64_t step = std::min(kFwdRows, rows_at_once(args.x.dtype));
    for (std::int64_t first = piece * kFwdRows; first < end; first += step) {
      const std::int64_t at = first * cols, now = std::min(step, end - first);
      const float* x = read(args.x, at, now * cols, row.mine());
      float* y = place(args.y, at, row.mine());
      fwd({.x = x,
           .gamma = gamma,
           .beta = beta,
           .y = y,
           .mean = args.mean.defined() ? args.mean.as<float>() + first : nullptr,
           .rstd = args.rstd.as<float>() + first,
           .rows = now,
           .cols = cols,
           .epsilon = args.epsilon});
      write(args.y, at, now * cols, y);
    }
  });
}

void run_op(const KernelContext& exec, const LayerNormBwdArgs& args) {
  check_one_float_type("layer_norm_bwd", {args.dy, args.x, args.gamma, args.dx_add, args.dx});
  check_fp32("layer_norm_bwd", {args.mean, args.rstd, args.dgamma, args.dbeta});
  const std::int64_t cols = args.gamma.num_elems(), rows = args.rstd.num_elems();
  assert(args.x.num_elems() == rows * cols && args.dx.num_elems() == rows * cols);
  const std::int64_t pieces = ceil_div(rows, kBwdRows);
  const Workspace partials(exec, std::max<std::int64_t>(1, pieces * 2 * cols));
  const bool converts = args.x.dtype != DType::kFloat32;
  const bool changes_gamma = converts || args.gamma_center != 0.0f;
  const ThreadScratch scratch(exec, converts ? 3 * cols : 0), gains(exec, changes_gamma ? cols : 0, 1);
  const float* gamma = shifted(read(args.gamma, 0, cols, gains.of(0)), args.gamma_center, cols, gains.of(0));
  for_each_piece(exec, pieces, rows * cols, [&](std::int64_t piece) {
    const std::int64_t end = std::min(rows, (piece + 1) * kBwdRows), step = rows_at_once(args.x.dtype);
    float* sums = partials.data() + piece * 2 * cols;
    std::fill_n(sums, 2 * cols, 0.0f);
    for (std::int64_t first = piece * kBwdRows; first < end; first += step) {
      bwd_rows(args, gamma, first, std::min(step, end - first), cols, scratch.mine(), sums);
    }
  });
  for_each_column_range(exec, cols, pieces * 2 * cols, [&](std::int64_t first, std::int64_t count) {
    finish(partials.data(), pieces, 2 * cols, args.dgamma, args.dgamma_mode, first, count);
    if (args.mean.defined()) {
      finish(partials.data() + cols, pieces, 2 * cols, args.dbeta, args.dbeta_mode, first, count);
    }
  });
}

}  // namespace trireme::cpu
