// Attention of a few new tokens to many cached ones. One piece is one query of one head. A piece reads each
// key and value once and is bound by memory, so plain loops suffice.
#include <algorithm>
#include <cassert>
#include <cmath>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/ops.h"

namespace trireme::cpu {
namespace {

struct Extent {
  std::int64_t samples, tokens, capacity;
  PackedHeads heads;
};

Extent extent_of(const AttentionCachedArgs& args) {
  return {.samples = args.qkv.shape[0],
          .tokens = args.qkv.shape[1],
          .capacity = args.keys.shape[2],
          .heads = packed_heads(args)};
}

/// Element 0 of row `token` of head `kv_head` in [B, K, capacity, D].
std::int64_t row_of(const Extent& e, std::int64_t sample, std::int64_t kv_head, std::int64_t token) {
  return ((sample * e.heads.keys + kv_head) * e.capacity + token) * e.heads.dim;
}

/// Element 0 of head `head` of a packed row. Heads are numbered over q, then k, then v.
std::int64_t packed_at(const Extent& e, std::int64_t sample, std::int64_t token, std::int64_t head) {
  return (sample * e.tokens + token) * e.heads.packed() + head * e.heads.dim;
}

/// Like read(), with the rounding of kTf32.
const float* read_operand(ConstTensorView x, MathMode math, std::int64_t first, std::int64_t count,
                          float* buffer) {
  if (x.dtype != DType::kFloat32 || math != MathMode::kTf32) return read(x, first, count, buffer);
  numerics().cast->read(x.as<float>() + first, Element::kTf32, buffer, count);
  return buffer;
}

float dot(const float* a, const float* b, std::int64_t n) {
  float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

void add_scaled(const float* x, float factor, std::int64_t n, float* sum) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) sum[i] += factor * x[i];
}

/// Replaces the scores by their exponentials and returns the sum.
float exponentiate(float* scores, std::int64_t n) {
  const float largest = *std::max_element(scores, scores + n);
  float sum = 0.0f;
  for (std::int64_t i = 0; i < n; ++i) {
    scores[i] = std::exp(scores[i] - largest);
    sum += scores[i];
  }
  return sum;
}

void keep_row(const AttentionCachedArgs& args, const Extent& e, std::int64_t sample, std::int64_t kv_head,
              std::int64_t token, float* buffer) {
  const std::int64_t to = row_of(e, sample, kv_head, args.first + token);
  const auto keep = [&](std::int64_t head, TensorView rows) {
    const std::int64_t from = packed_at(e, sample, token, head);
    write(rows, to, e.heads.dim, read_operand(args.qkv, args.math, from, e.heads.dim, buffer));
  };
  keep(e.heads.queries + kv_head, args.keys);
  keep(e.heads.queries + e.heads.keys + kv_head, args.values);
}

/// `scratch` holds 3 head_dim + capacity floats.
void attend(const AttentionCachedArgs& args, const Extent& e, std::int64_t sample, std::int64_t head,
            std::int64_t token, float* scratch) {
  const std::int64_t d = e.heads.dim, end = args.first + token + 1;
  const std::int64_t first = args.window > 0 ? std::max(std::int64_t{0}, end - args.window) : 0;
  const std::int64_t seen = end - first, row = row_of(e, sample, head / e.heads.group(), first);
  float *q_buffer = scratch, *buffer = q_buffer + d, *sum = buffer + d, *scores = sum + d;
  const float* q = read_operand(args.qkv, args.math, packed_at(e, sample, token, head), d, q_buffer);
  for (std::int64_t i = 0; i < seen; ++i) {
    scores[i] = args.scale * dot(q, read(args.keys, row + i * d, d, buffer), d);
  }
  const float total = exponentiate(scores, seen);
  std::fill_n(sum, d, 0.0f);
  for (std::int64_t i = 0; i < seen; ++i) {
    add_scaled(read(args.values, row + i * d, d, buffer), scores[i] / total, d, sum);
  }
  write(args.out, ((sample * e.tokens + token) * e.heads.queries + head) * d, d, sum);
}

}  // namespace

void run_op(const KernelContext& exec, const AttentionCachedArgs& args) {
  check_one_float_type("attention_cached", {args.qkv, args.keys, args.values, args.out});
  const Extent e = extent_of(args);
  assert(e.heads.dim == args.keys.shape[3] && e.heads.keys == args.keys.shape[1]);
  assert(args.first + e.tokens <= e.capacity && args.keys.num_elems() == args.values.num_elems());
  const ThreadScratch scratch(exec, 3 * e.heads.dim + e.capacity);
  const auto for_each_row = [&](std::int64_t heads, std::int64_t work_of_row, const auto& body) {
    const std::int64_t pieces = e.samples * heads * e.tokens;
    for_each_piece(exec, pieces, pieces * work_of_row, [&](std::int64_t i) {
      body(args, e, i / e.tokens / heads, i / e.tokens % heads, i % e.tokens, scratch.mine());
    });
  };
  for_each_row(e.heads.keys, 2 * e.heads.dim, keep_row);
  if (!args.out.defined()) return;
  for_each_row(e.heads.queries, 4 * e.heads.dim * (args.first + e.tokens), attend);
}

}  // namespace trireme::cpu
