// Tiles of fp32 products on oneDNN's sgemm: see [Note: matmul tiles] in kernels/cpu/matmul/matmul.cc.
#pragma once

#include <oneapi/dnnl/dnnl.h>

#include "kernels/cpu/matmul/matmul_tiling.h"
#include "kernels/cpu/matmul/operand_copy.h"

namespace trireme::cpu {

// Measured on AVX-512 with 1 MiB of L2: tiles of 1024 x 1536 run within 3 % of one big sgemm, 512 x 384
// within 8 %, 96 x 128 within 20 %.
inline constexpr TileLimits kSgemmTiles{.rows = 1024, .cols = 1536};

/// The operands of all tiles.
struct Operands {
  Operand a, b;
  std::int64_t range;  // of k, processed by one sgemm
};

/// d_tile = op(a) op(b) over `range` of k from `k` on, + beta * d_tile.
inline dnnl_status_t sgemm_range(const Operands& operands, std::int64_t k, std::int64_t range, const Tile& t,
                                 float beta, float* d, std::int64_t d_pitch) {
  const Operand &a = operands.a, &b = operands.b;
  const float* a_at = a.data + (a.transposed ? k * a.pitch + t.row : t.row * a.pitch + k);
  const float* b_at = b.data + (b.transposed ? t.col * b.pitch + k : k * b.pitch + t.col);
  return dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', t.rows, t.cols, range, 1.0f, a_at,
                    a.pitch, b_at, b.pitch, beta, d, d_pitch);
}

/// d_tile = op(a) op(b) + beta * d_tile, one range of k at a time.
inline dnnl_status_t sgemm_tile(const Operands& operands, std::int64_t depth, const Tile& t, float beta,
                                float* d, std::int64_t d_pitch) {
  dnnl_status_t status = dnnl_success;
  for (std::int64_t k = 0; status == dnnl_success && k < depth; k += operands.range) {
    const std::int64_t range = std::min(operands.range, depth - k);
    status = sgemm_range(operands, k, range, t, k == 0 ? beta : 1.0f, d, d_pitch);
  }
  return status;
}

inline Operand operand(ConstTensorView view, Transpose transpose) {
  return {.data = view.as<float>(),
          .rows = view.shape[0],
          .cols = view.shape[1],
          .pitch = view.shape[1],
          .transposed = transpose == Transpose::kYes};
}

}  // namespace trireme::cpu
