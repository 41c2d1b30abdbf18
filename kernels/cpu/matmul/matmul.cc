// Matrix products on oneDNN's sgemm, and the choice of products that use panels instead.
//
// [Note: matmul tiles] The output is split into tiles by its shape alone. One thread computes each tile with
// single-threaded dnnl_sgemm over all of K in order, then applies the epilogue while the tile is in cache. So
// neither the number of threads nor their assignment to tiles changes a bit. (oneDNN's parallel gemm splits
// all dims, including K, by the number of threads.) [Note: operand copies] covers operands that sgemm reads
// slowly. A thread first computes a fixed share of the tiles. The rows that it wrote are then still in its
// cache when the next product reads them. Afterwards it takes tiles that other threads have not begun. This
// order changes no bits either.
#include <oneapi/dnnl/dnnl.h>

#include <cassert>
#include <optional>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/matmul/bias_grad.h"
#include "kernels/cpu/matmul/matmul_panels.h"
#include "kernels/cpu/matmul/matmul_start.h"
#include "kernels/cpu/matmul/matmul_tiling.h"
#include "kernels/cpu/matmul/operand_copy.h"
#include "kernels/cpu/matmul/sgemm_tile.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/quantize.h"
#include "runtime/base/error.h"

namespace trireme::cpu {
namespace {

bool has_epilogue(const MatmulArgs& args) {
  return args.bias.defined() || args.pre_activation.defined() || args.residual.defined() ||
         args.activation != Activation::kNone;
}

// Computes all tiles for one range of k before the next range.
void multiply_depth_first(const KernelContext& exec, const MatmulArgs& args, const Operands& operands,
                          const Extents& e) {
  const float beta = args.mode == GradientMode::kAccumulate ? 1.0f : 0.0f;
  const bool sums = wants_bias_grad(args);
  const std::int64_t depth = shallow_range(e);
  for_each_round_and_tile(exec, e, tiling_of(e, kSgemmTiles), ceil_div(e.k, depth),
                          [&](std::int64_t round, const Tile& t) {
                            const std::int64_t k = round * depth, range = std::min(depth, e.k - k);
                            if (sums && t.col == 0) add_bias_grad(args, k, range, t.row, t.rows);
                            return sgemm_range(operands, k, range, t, round == 0 ? beta : 1.0f,
                                               args.d.as<float>() + t.row * e.n + t.col, e.n);
                          });
}

dnnl_status_t compute_tile(const MatmulArgs& args, const Operands& operands, const Extents& e, const Tile& t,
                           float* residual_copy) {
  float* d = args.d.as<float>() + t.row * e.n + t.col;
  const std::int64_t offset = t.row * e.n + t.col;
  const float* residual = args.residual.defined() ? args.residual.as<float>() + offset : nullptr;
  const bool activates = args.activation != Activation::kNone;
  float beta = args.mode == GradientMode::kAccumulate ? 1.0f : 0.0f;
  std::int64_t residual_pitch = e.n;
  const bool starts = starts_from_residual(args);
  if (starts) {
    start_tile(args, t, e.n, d);
    beta = 1.0f;
  } else if (residual != nullptr && residual == d) {
    copy_rows(residual_copy, t.cols, residual, e.n, t);
    residual = residual_copy;
    residual_pitch = t.cols;
  }
  const dnnl_status_t status = sgemm_tile(operands, e.k, t, beta, d, e.n);
  if (!starts && (args.bias.defined() || args.pre_activation.defined() || activates || residual != nullptr)) {
    numerics().activation->epilogue({
        .d = d,
        .rows = t.rows,
        .cols = t.cols,
        .pitch = e.n,
        .bias = args.bias.defined() ? args.bias.as<float>() + t.col : nullptr,
        .pre_activation = args.pre_activation.defined() ? args.pre_activation.as<float>() + offset : nullptr,
        .residual = residual,
        .residual_pitch = residual_pitch,
        .activation = args.activation,
    });
  }
  return status;
}

void check_dtypes(const MatmulArgs& args) {
  check_one_float_type("matmul", {args.a, args.b});
  check_one_float_type("matmul", {args.d, args.bias, args.pre_activation, args.residual});
  if (args.d.dtype == args.a.dtype || args.d.dtype == DType::kFloat32) return;
  throw Error(ErrorCode::kUnsupported, "matmul on cpu does not support {} inputs with a {} output",
              name(args.a.dtype), name(args.d.dtype));
}

void sum_columns_apart(const KernelContext& exec, const MatmulArgs& args) {
  if (!args.bias_grad.defined()) return;
  run_op(exec, ColumnSumArgs{.x = args.a, .out = args.bias_grad, .mode = args.bias_grad_mode});
}

// The product of the decoded fp8 codes: see [Note: fp8].
void multiply_fp8(const KernelContext& exec, const MatmulArgs& args) {
  const bool runs_along_k = args.transpose_a == Transpose::kNo && args.transpose_b == Transpose::kYes;
  if (!is_fp8(args.a.dtype) || !is_fp8(args.b.dtype) || !runs_along_k || args.bias_grad.defined()) {
    throw Error(ErrorCode::kUnsupported, "matmul on cpu does not support scaled {} and {}{}",
                name(args.a.dtype), name(args.b.dtype),
                args.bias_grad.defined() ? " with a bias gradient"
                : runs_along_k           ? ""
                                         : " in this order");
  }
  check_fp32("matmul", {args.a_inverse_scale, args.b_inverse_scale});
  const auto floats = [](ConstTensorView codes) { return (codes.num_elems() + 1) / 2; };
  const Workspace a(exec, floats(args.a)), b(exec, floats(args.b));
  const auto numbers_of = [&exec](ConstTensorView codes, ConstTensorView inverse_scale, float* memory) {
    auto* numbers = reinterpret_cast<std::uint16_t*>(memory);
    dequantize(exec, codes, *inverse_scale.as<float>(), numbers);
    return ConstTensorView{numbers, DType::kBFloat16, codes.shape};
  };
  MatmulArgs numbers = args;
  numbers.a = numbers_of(args.a, args.a_inverse_scale, a.data());
  numbers.b = numbers_of(args.b, args.b_inverse_scale, b.data());
  numbers.a_inverse_scale = numbers.b_inverse_scale = {};
  run_op(exec, numbers);
}

}  // namespace

void run_op(const KernelContext& exec, const MatmulArgs& args) {
  if (args.a_pitch != 0 || args.d_pitch != 0) {
    throw Error(ErrorCode::kUnsupported, "matmul on cpu needs contiguous rows");
  }
  if (args.a_inverse_scale.defined()) return multiply_fp8(exec, args);
  check_dtypes(args);
  const bool ta = args.transpose_a == Transpose::kYes;
  [[maybe_unused]] const bool tb = args.transpose_b == Transpose::kYes;
  const Extents e{args.d.shape[0], args.d.shape[1], args.a.shape[ta ? 0 : 1]};
  assert(args.a.shape[ta ? 1 : 0] == e.m && args.b.shape[tb ? 0 : 1] == e.n &&
         args.b.shape[tb ? 1 : 0] == e.k);
  assert(ta || !args.bias_grad.defined());
  if (e.m == 0 || e.n == 0) return sum_columns_apart(exec, args);
  if (args.bias_grad.defined()) check_fp32("matmul", {args.bias_grad});
  if (args.a.dtype != DType::kFloat32) sum_columns_apart(exec, args);
  // sgemm leaves d unchanged when K is 0.
  if (args.a.dtype != DType::kFloat32 || args.math == MathMode::kTf32 || e.k == 0) {
    return matmul_by_panels(exec, args, e);
  }
  Operands operands{
      .a = operand(args.a, args.transpose_a), .b = operand(args.b, args.transpose_b), .range = e.k};
  const OperandCopies copies = copies_for(operands.a, operands.b, e);
  if (copies == OperandCopies::kDepthFirst && !has_epilogue(args)) {
    return multiply_depth_first(exec, args, operands, e);
  }
  if (copies == OperandCopies::kPanels) return matmul_by_panels(exec, args, e);
  sum_columns_apart(exec, args);
  if (copies == OperandCopies::kShortRanges) operands.range = kShortRange;
  std::optional<TransposedCopy> b_copy;
  if (copies == OperandCopies::kTransposedB) operands.b = b_copy.emplace(exec, operands.b).operand();
  const Tiling tiling = tiling_of(e, kSgemmTiles);
  // The epilogue needs a residual that sgemm overwrites, so each tile copies it first.
  const bool overwrites = args.residual.defined() && args.residual.data == args.d.data &&
                          (args.activation != Activation::kNone || args.pre_activation.defined());
  const ThreadScratch residual_copy(exec, overwrites ? tiling.tile_rows * tiling.tile_cols : 0);
  for_each_tile(exec, e, tiling, [&](const Tile& tile) {
    return compute_tile(args, operands, e, tile, residual_copy.mine());
  });
}

}  // namespace trireme::cpu
