#include <cassert>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/ops.h"

namespace trireme::cpu {

void run_op(const KernelContext& exec, const ColumnSumArgs& args) {
  check_one_float_type("column_sum", {args.x});
  check_fp32("column_sum", {args.out});
  if (args.mode == GradientMode::kIgnore) return;
  const std::int64_t cols = args.out.num_elems();
  if (cols == 0) return;
  const std::int64_t rows = args.x.num_elems() / cols;
  assert(args.x.shape.dim(-1) == cols);
  const std::int64_t pitch = args.x_pitch > 0 ? args.x_pitch : cols;
  const bool overwrite = args.mode == GradientMode::kOverwrite;
  for_each_column_range(exec, cols, rows * cols, [&](std::int64_t first, std::int64_t count) {
    float* out = args.out.as<float>() + first;
    if (overwrite) std::fill_n(out, count, 0.0f);
    if (args.x.dtype == DType::kFloat32) {
      numerics().elementwise->add_rows(args.x.as<float>() + first, rows, pitch, out, count);
      return;
    }
    for (std::int64_t m = 0; m < rows; ++m) add_to(out, args.x, m * pitch + first, count);
  });
}

}  // namespace trireme::cpu
