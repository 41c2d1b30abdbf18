// Matrix products on oneDNN's sgemm.
//
// [Note: matmul tiles] The output is cut into tiles by its shape alone; each tile is one single-threaded
// dnnl_sgemm over the whole of K, followed by its epilogue while the tile is in cache. So neither the number
// of threads nor who computes a tile can change a bit. (oneDNN's own parallel gemm cuts by the number of
// threads, K included.)
#include <oneapi/dnnl/dnnl.h>

#include <cassert>
#include <cstring>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/matmul_panels.h"
#include "kernels/cpu/matmul_tiling.h"
#include "kernels/cpu/ops.h"
#include "runtime/base/error.h"

namespace trireme::cpu {
namespace {

// Measured on AVX-512 with 1 MiB of L2: tiles of 1024 x 1536 run within 3 % of one big sgemm, 512 x 384
// within 8 %, 96 x 128 within 20 %.
constexpr TileLimits kTileLimits{.rows = 1024, .cols = 1536};

// d_tile = op(a) op(b) + beta * d_tile.
dnnl_status_t sgemm_tile(const MatmulArgs& args, const Extents& e, const Tile& t, float beta, float* d,
                         std::int64_t d_pitch) {
  const bool ta = args.transpose_a == Transpose::kYes, tb = args.transpose_b == Transpose::kYes;
  const std::int64_t lda = ta ? e.m : e.k, ldb = tb ? e.k : e.n;
  const float* a = args.a.as<float>() + (ta ? t.row : t.row * lda);
  const float* b = args.b.as<float>() + (tb ? t.col * ldb : t.col);
  return dnnl_sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', t.rows, t.cols, e.k, 1.0f, a, lda, b, ldb, beta, d,
                    d_pitch);
}

void copy_rows(float* dst, std::int64_t dst_pitch, const float* src, std::int64_t src_pitch, const Tile& t) {
  for (std::int64_t i = 0; i < t.rows; ++i) {
    std::memcpy(dst + i * dst_pitch, src + i * src_pitch, static_cast<std::size_t>(t.cols) * sizeof(float));
  }
}

// A residual without activation is where the product starts (beta = 1), whether it is `d` itself or not, so
// that aliasing changes no bits.
dnnl_status_t compute_tile(const MatmulArgs& args, const Extents& e, const Tile& t, float* residual_copy) {
  float* d = args.d.as<float>() + t.row * e.n + t.col;
  const std::int64_t offset = t.row * e.n + t.col;
  const float* residual = args.residual.defined() ? args.residual.as<float>() + offset : nullptr;
  const bool gelu = args.activation == Activation::kGeluTanh;
  float beta = args.mode == GradientMode::kAccumulate ? 1.0f : 0.0f;
  std::int64_t residual_pitch = e.n;
  if (residual != nullptr && !gelu && !args.pre_activation.defined()) {
    if (residual != d) copy_rows(d, e.n, residual, e.n, t);
    residual = nullptr;
    beta = 1.0f;
  } else if (residual != nullptr && residual == d) {
    copy_rows(residual_copy, t.cols, residual, e.n, t);
    residual = residual_copy;
    residual_pitch = t.cols;
  }
  const dnnl_status_t status = sgemm_tile(args, e, t, beta, d, e.n);
  if (args.bias.defined() || args.pre_activation.defined() || gelu || residual != nullptr) {
    numerics().activation->epilogue({
        .d = d,
        .rows = t.rows,
        .cols = t.cols,
        .pitch = e.n,
        .bias = args.bias.defined() ? args.bias.as<float>() + t.col : nullptr,
        .pre_activation = args.pre_activation.defined() ? args.pre_activation.as<float>() + offset : nullptr,
        .residual = residual,
        .residual_pitch = residual_pitch,
        .gelu = gelu,
    });
  }
  return status;
}

void check_dtypes(const MatmulArgs& args) {
  check_one_float_type("matmul", {args.a, args.b});
  check_one_float_type("matmul", {args.d, args.bias, args.pre_activation, args.residual});
  if (args.d.dtype == args.a.dtype || args.d.dtype == DType::kFloat32) return;
  throw Error(ErrorCode::kUnsupported,
              fmt::format("matmul on cpu does not turn {} into {}", name(args.a.dtype), name(args.d.dtype)));
}

}  // namespace

void matmul(const KernelContext& exec, const MatmulArgs& args) {
  check_dtypes(args);
  const bool ta = args.transpose_a == Transpose::kYes;
  [[maybe_unused]] const bool tb = args.transpose_b == Transpose::kYes;
  const Extents e{args.d.shape[0], args.d.shape[1], args.a.shape[ta ? 0 : 1]};
  assert(args.a.shape[ta ? 1 : 0] == e.m && args.b.shape[tb ? 0 : 1] == e.n &&
         args.b.shape[tb ? 1 : 0] == e.k);
  if (e.m == 0 || e.n == 0) return;
  if (args.a.dtype != DType::kFloat32 || args.math == MathMode::kTf32) {
    return matmul_by_panels(exec, args, e);
  }
  const Tiling tiling = tiling_of(e, kTileLimits);
  // Where the epilogue reads what sgemm overwrites.
  const bool copies = args.residual.defined() && args.residual.data == args.d.data &&
                      (args.activation != Activation::kNone || args.pre_activation.defined());
  const ThreadScratch residual_copy(exec, copies ? tiling.tile_rows * tiling.tile_cols : 0);
  for_each_tile(exec, e, tiling,
                [&](const Tile& tile) { return compute_tile(args, e, tile, residual_copy.mine()); });
}

}  // namespace trireme::cpu
