#include <algorithm>
#include <cassert>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/ops.h"

namespace trireme::cpu {
namespace {

void zero_rows(float* out, std::int64_t rows, std::int64_t pitch, std::int64_t cols) {
  for (std::int64_t i = 0; i < rows; ++i) std::fill_n(out + i * pitch, cols, 0.0f);
}

// The table row of a token, or -1 if another piece of the table holds it.
std::int64_t row_of(std::int32_t token, std::int64_t first_id, std::int64_t num_ids) {
  if (first_id < 0) return token;
  const std::int64_t row = token - first_id;
  return row >= 0 && row < num_ids ? row : -1;
}

// x[to ...) += table[row ...) + positions[position ...), `cols` elements each. A `row` of -1 adds no row. x
// contains no negative zeros. So an element that is 0 in all pieces but one sums to the same bits in any
// order.
void add_piece(const EmbeddingFwdArgs& args, std::int64_t row, std::int64_t position, std::int64_t to,
               std::int64_t cols) {
  for (std::int64_t c = 0; c < cols; c += kBuffer) {
    const std::int64_t count = std::min(kBuffer, cols - c);
    float sum[kBuffer] = {}, other[kBuffer], old[kBuffer];
    const auto add = [&](const float* more) { numerics().elementwise->add(sum, more, sum, count); };
    if (row >= 0) add(read(args.table, row * cols + c, count, other));
    if (args.positions.defined()) add(read(args.positions, position + c, count, other));
    add(read(args.x, to + c, count, old));
    write(args.x, to + c, count, sum);
  }
}

// x[to ...) = table[row ...) + positions[position ...), `cols` elements each.
void embed(const EmbeddingFwdArgs& args, std::int64_t row, std::int64_t position, std::int64_t to,
           std::int64_t cols) {
  for (std::int64_t c = 0; c < cols; c += kBuffer) {
    const std::int64_t count = std::min(kBuffer, cols - c);
    float buffer[kBuffer], other[kBuffer];
    const float* from = read(args.table, row + c, count, buffer);
    if (!args.positions.defined()) {
      write(args.x, to + c, count, from);
      continue;
    }
    float* x = place(args.x, to + c, buffer);
    numerics().elementwise->add(from, read(args.positions, position + c, count, other), x, count);
    write(args.x, to + c, count, x);
  }
}

}  // namespace

void run_op(const KernelContext& exec, const EmbeddingFwdArgs& args) {
  check_one_float_type("embedding_fwd", {args.table, args.positions, args.x});
  const std::int64_t num_tokens = args.tokens.num_elems(), seq_len = args.tokens.shape.dim(-1);
  const std::int64_t cols = args.table.shape[1];
  assert(args.x.num_elems() == num_tokens * cols);
  const std::int32_t* tokens = args.tokens.as<std::int32_t>();
  const bool piece = args.first_id >= 0;
  check_indices(
      {.op = "embedding_fwd", .what = "token id", .count = piece ? args.num_ids : args.table.shape[0]},
      args.tokens);
  if (piece) {
    for_each_piece(exec, num_tokens, num_tokens * cols, [&](std::int64_t i) {
      const std::int64_t row = row_of(tokens[i], args.first_id, args.table.shape[0]);
      if (row >= 0 || args.positions.defined()) add_piece(args, row, i % seq_len * cols, i * cols, cols);
    });
    return;
  }
  for_each_piece(exec, num_tokens, num_tokens * cols,
                 [&](std::int64_t i) { embed(args, tokens[i] * cols, i % seq_len * cols, i * cols, cols); });
}

void run_op(const KernelContext& exec, const EmbeddingBwdArgs& args) {
  check_one_float_type("embedding_bwd", {args.dx});
  check_fp32("embedding_bwd", {args.dtable, args.dpositions});
  const std::int64_t num_tokens = args.tokens.num_elems(), seq_len = args.tokens.shape.dim(-1);
  const std::int64_t cols = args.dx.shape.dim(-1);
  const bool table = args.dtable_mode != GradientMode::kIgnore;
  const bool positions = args.dpositions_mode != GradientMode::kIgnore;
  const std::int32_t* tokens = args.tokens.as<std::int32_t>();
  if (table && args.first_id < 0) {
    check_indices({.op = "embedding_bwd", .what = "token id", .count = args.dtable.shape[0]}, args.tokens);
  }
  if (table && args.dtable_mode == GradientMode::kOverwrite) fill_zero(exec, args.dtable);
  // Each row's sum is in token order, independent of the thread.
  for_each_column_range(exec, cols, num_tokens * cols, [&](std::int64_t first, std::int64_t count) {
    float* dpositions = positions ? args.dpositions.as<float>() + first : nullptr;
    if (positions && args.dpositions_mode == GradientMode::kOverwrite) {
      zero_rows(dpositions, args.dpositions.shape[0], cols, count);
    }
    for (std::int64_t i = 0; i < num_tokens; ++i) {
      const std::int64_t row = i * cols + first;
      const std::int64_t to = table ? row_of(tokens[i], args.first_id, args.dtable.shape[0]) : -1;
      if (to >= 0) add_to(args.dtable.as<float>() + to * cols + first, args.dx, row, count);
      if (positions) add_to(dpositions + i % seq_len * cols, args.dx, row, count);
    }
  });
}

}  // namespace trireme::cpu
