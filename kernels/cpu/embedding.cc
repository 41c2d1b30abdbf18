#include <cassert>
#include <cstring>

#include "kernels/cpu/launch.h"
#include "kernels/cpu/numerics.h"
#include "kernels/cpu/ops.h"

namespace trireme::cpu {
namespace {

void zero_rows(float* out, std::int64_t rows, std::int64_t pitch, std::int64_t cols) {
  for (std::int64_t i = 0; i < rows; ++i) std::fill_n(out + i * pitch, cols, 0.0f);
}

}  // namespace

void embedding_fwd(const KernelContext& exec, const EmbeddingFwdArgs& args) {
  check_fp32("embedding_fwd", {args.table, args.positions, args.x});
  const std::int64_t num_tokens = args.tokens.num_elems(), seq_len = args.tokens.shape.dim(-1);
  const std::int64_t cols = args.table.shape[1];
  assert(args.x.num_elems() == num_tokens * cols);
  const std::int32_t* tokens = args.tokens.as<std::int32_t>();
  const float *table = args.table.as<float>(), *positions = args.positions.as<float>();
  float* x = args.x.as<float>();
  for_each_piece(exec, num_tokens, num_tokens * cols, [&](std::int64_t i) {
    assert(tokens[i] >= 0 && tokens[i] < args.table.shape[0]);
    const float* row = table + tokens[i] * cols;
    if (positions != nullptr) {
      numerics().elementwise->add(row, positions + i % seq_len * cols, x + i * cols, cols);
    } else {
      std::memcpy(x + i * cols, row, static_cast<std::size_t>(cols) * sizeof(float));
    }
  });
}

void embedding_bwd(const KernelContext& exec, const EmbeddingBwdArgs& args) {
  check_fp32("embedding_bwd", {args.dx, args.dtable, args.dpositions});
  const std::int64_t num_tokens = args.tokens.num_elems(), seq_len = args.tokens.shape.dim(-1);
  const std::int64_t cols = args.dx.shape.dim(-1);
  const bool table = args.dtable_mode != GradientMode::kIgnore;
  const bool positions = args.dpositions_mode != GradientMode::kIgnore;
  const std::int32_t* tokens = args.tokens.as<std::int32_t>();
  if (table && args.dtable_mode == GradientMode::kOverwrite) fill_zero(exec, args.dtable);
  // A row's sum is in token order whoever adds it.
  for_each_column_range(exec, cols, num_tokens * cols, [&](std::int64_t first, std::int64_t count) {
    const float* dx = args.dx.as<float>() + first;
    float* dpositions = positions ? args.dpositions.as<float>() + first : nullptr;
    if (positions && args.dpositions_mode == GradientMode::kOverwrite) {
      zero_rows(dpositions, args.dpositions.shape[0], cols, count);
    }
    for (std::int64_t i = 0; i < num_tokens; ++i) {
      const float* row = dx + i * cols;
      if (table) {
        float* out = args.dtable.as<float>() + tokens[i] * cols + first;
        numerics().elementwise->add(out, row, out, count);
      }
      if (positions) {
        float* out = dpositions + i % seq_len * cols;
        numerics().elementwise->add(out, row, out, count);
      }
    }
  });
}

}  // namespace trireme::cpu
