#include <algorithm>
#include <cassert>
#include <limits>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/ops.h"

namespace trireme::cpu {
namespace {

// The rows of `logits`. Without elements or with one row, all loops treat it as one row.
std::int64_t num_rows(const ConstTensorView& logits) {
  return logits.num_elems() / std::max<std::int64_t>(1, logits.shape.dim(-1));
}

// The index of a target in a piece of the classes, or -1.
std::int64_t place_of(std::int32_t target, std::int64_t first_class, std::int64_t cols) {
  const std::int64_t at = target - first_class;
  return target >= 0 && at >= 0 && at < cols ? at : -1;
}

}  // namespace

void run_op(const KernelContext& exec, const LogitStatisticsArgs& args) {
  check_one_float_type("logit_statistics", {args.logits});
  check_fp32("logit_statistics", {args.statistics});
  check_indices({.op = "logit_statistics",
                 .what = "target",
                 .lowest = std::numeric_limits<std::int32_t>::min(),
                 .count = args.num_classes},
                args.targets);
  const std::int64_t rows = num_rows(args.logits), cols = args.logits.shape.dim(-1);
  assert(args.targets.num_elems() == rows && args.statistics.num_elems() == 3 * rows);
  const std::int32_t* targets = args.targets.as<std::int32_t>();
  float* out = args.statistics.as<float>();
  const ThreadScratch scratch(exec, args.logits.dtype == DType::kFloat32 ? 0 : cols);
  for_each_piece(exec, rows, rows * cols * 4, [&](std::int64_t m) {
    float max = 0.0f, sum = 0.0f, logit = 0.0f;
    if (targets[m] >= 0) {
      const float* row = read(args.logits, m * cols, cols, scratch.mine());
      numerics().cross_entropy->exp_sum(row, cols, max, sum);
      const std::int64_t place = place_of(targets[m], args.first_class, cols);
      if (place >= 0) logit = row[place];
    }
    out[m] = max;
    out[rows + m] = sum;
    out[2 * rows + m] = logit;
  });
}

void run_op(const KernelContext&, const JoinLogitStatisticsArgs& args) {
  check_fp32("join_logit_statistics", {args.a, args.b, args.out});
  const std::int64_t rows = args.out.num_elems() / 3;
  assert(args.a.num_elems() == 3 * rows && args.b.num_elems() == 3 * rows);
  const float *a = args.a.as<float>(), *b = args.b.as<float>();
  float* out = args.out.as<float>();
  numerics().cross_entropy->join_exp_sums(a, b, out, rows);
  numerics().elementwise->add(a + 2 * rows, b + 2 * rows, out + 2 * rows, rows);
}

void run_op(const KernelContext& exec, const PieceCrossEntropyArgs& args) {
  check_one_float_type("piece_cross_entropy", {args.logits});
  check_fp32("piece_cross_entropy", {args.statistics, args.loss, args.gradient_scale});
  const std::int64_t rows = num_rows(args.logits), cols = args.logits.shape.dim(-1);
  assert(args.targets.num_elems() == rows && args.statistics.num_elems() == 3 * rows);
  const std::int32_t* targets = args.targets.as<std::int32_t>();
  const float *max = args.statistics.as<float>(), *sum = max + rows, *logit = sum + rows;
  if (args.loss.defined()) {
    double total = 0.0;
    for (std::int64_t m = 0; m < rows; ++m) {
      if (targets[m] >= 0) total += __builtin_logf(sum[m]) + (max[m] - logit[m]);
    }
    *args.loss.as<float>() = static_cast<float>(args.inv_num_targets * total);
  }
  if (!args.write_gradient) return;
  const float scale =
      args.inv_num_targets * (args.gradient_scale.defined() ? *args.gradient_scale.as<float>() : 1.0f);
  const ThreadScratch scratch(exec, args.logits.dtype == DType::kFloat32 ? 0 : cols);
  for_each_piece(exec, rows, rows * cols * 4, [&](std::int64_t m) {
    float* row = place(args.logits, m * cols, scratch.mine());
    if (targets[m] < 0) {
      std::fill_n(row, cols, 0.0f);
    } else {
      read(args.logits, m * cols, cols, row);
      numerics().cross_entropy->softmax(row, cols, max[m], scale / sum[m]);
      const std::int64_t target = place_of(targets[m], args.first_class, cols);
      if (target >= 0) row[target] -= scale;
    }
    write(args.logits, m * cols, cols, row);
  });
}

}  // namespace trireme::cpu
