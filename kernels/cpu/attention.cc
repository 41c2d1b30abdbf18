// Attention. One piece is one head of one sample.
#include <cassert>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/random.h"

namespace trireme::cpu {
namespace {

/// The address of element `at`.
const char* address(ConstTensorView x, std::int64_t at) {
  return x.as<char>() + at * size_bytes(x.dtype);
}
char* address(TensorView x, std::int64_t at) {
  return x.as<char>() + at * size_bytes(x.dtype);
}

Element element_read(DType dtype, MathMode math) {
  return dtype == DType::kFloat32 && math == MathMode::kTf32 ? Element::kTf32 : element_of(dtype);
}

/// Head `head` of the queries, with the keys and values that it reads.
template <class Args>
AttentionHead head_at(const Args& args, const PackedHeads& heads, std::int64_t sample, std::int64_t head) {
  const std::int64_t seq_len = args.qkv.shape[1], row = sample * seq_len * heads.packed();
  const std::int64_t k = row + (heads.queries + head / heads.group()) * heads.dim;
  return {.element = element_read(args.qkv.dtype, args.math),
          .q = address(args.qkv, row + head * heads.dim),
          .k = address(args.qkv, k),
          .v = address(args.qkv, k + heads.keys * heads.dim),
          .q_pitch = heads.packed(),
          .kv_pitch = heads.packed(),
          .out = address(args.out, sample * seq_len * heads.width() + head * heads.dim),
          .out_pitch = heads.width(),
          .num_queries = seq_len,
          .num_keys = seq_len,
          .head_dim = heads.dim,
          .scale = args.scale,
          .causal = args.causal,
          .dropout_p = args.dropout_p,
          .first_elem = head * seq_len * seq_len,
          .sample = static_cast<std::uint32_t>(args.first_sample + sample),
          .key = philox_key(args.rng),
          .key_bounds = args.key_bounds.defined()
                            ? args.key_bounds.template as<std::int32_t>() + 2 * sample * seq_len
                            : nullptr,
          .window = args.window};
}

/// The heads of queries [B, T, H D] and of keys and values [B, S, H D].
struct CrossHeads {
  std::int64_t samples, num_queries, num_keys, count, dim;

  template <class Args>
  explicit CrossHeads(const Args& args)
      : samples(args.q.shape[0]),
        num_queries(args.q.shape[1]),
        num_keys(args.k.shape[1]),
        count(args.num_heads),
        dim(args.q.shape[2] / count) {
    assert(args.k.num_elems() == samples * num_keys * count * dim);
    assert(args.v.num_elems() == args.k.num_elems() && args.out.num_elems() == args.q.num_elems());
    assert(args.lse.num_elems() == samples * count * num_queries);
  }
  /// The first element of a head.
  std::int64_t query(std::int64_t sample, std::int64_t head) const {
    return (sample * num_queries * count + head) * dim;
  }
  std::int64_t key(std::int64_t sample, std::int64_t head) const {
    return (sample * num_keys * count + head) * dim;
  }
  template <class Args>
  AttentionHead at(const Args& args, std::int64_t sample, std::int64_t head) const {
    const std::int64_t q = query(sample, head), k = key(sample, head);
    return {.element = element_read(args.q.dtype, args.math),
            .q = address(args.q, q),
            .k = address(args.k, k),
            .v = address(args.v, k),
            .q_pitch = count * dim,
            .kv_pitch = count * dim,
            .out = address(args.out, q),
            .out_pitch = count * dim,
            .num_queries = num_queries,
            .num_keys = num_keys,
            .head_dim = dim,
            .scale = args.scale,
            .causal = false,
            .dropout_p = 0.0f,
            .first_elem = 0,
            .sample = 0,
            .key = {},
            .key_bounds = nullptr,
            .window = 0};
  }
};

// Runs body(sample, head, scratch of the thread) for all heads of all samples.
template <class Body>
void for_each_head(const KernelContext& exec, std::int64_t samples, std::int64_t heads,
                   std::int64_t scratch_floats, const Body& body) {
  const ThreadScratch scratch(exec, scratch_floats);
#pragma omp parallel for schedule(dynamic) num_threads(exec.num_threads)
  for (std::int64_t i = 0; i < samples * heads; ++i) {
    body(i / heads, i % heads, scratch.mine());
  }
}

}  // namespace

void run_op(const KernelContext& exec, const AttentionFwdArgs& args) {
  check_one_float_type("attention_fwd", {args.qkv, args.out});
  check_fp32("attention_fwd", {args.lse});
  const PackedHeads heads = packed_heads(args);
  const std::int64_t samples = args.qkv.shape[0], seq_len = args.qkv.shape[1];
  assert(args.out.num_elems() == samples * seq_len * heads.width());
  assert(args.lse.num_elems() == samples * heads.queries * seq_len);
  const AttentionFwdNumerics& attention = *numerics().attention_fwd;
  for_each_head(exec, samples, heads.queries, attention.scratch_floats(seq_len, heads.dim),
                [&](std::int64_t sample, std::int64_t head, float* scratch) {
                  AttentionFwdHead piece{.head = head_at(args, heads, sample, head)};
                  piece.out = const_cast<void*>(piece.head.out);
                  piece.lse = args.lse.as<float>() + (sample * heads.queries + head) * seq_len;
                  piece.scratch = scratch;
                  attention.run(piece);
                });
}

// One piece is a head of keys with all queries that read it, so that one thread sums the head's gradients.
void run_op(const KernelContext& exec, const AttentionBwdArgs& args) {
  check_one_float_type("attention_bwd", {args.dout, args.qkv, args.out, args.dqkv});
  check_fp32("attention_bwd", {args.lse});
  const PackedHeads heads = packed_heads(args);
  const std::int64_t samples = args.qkv.shape[0], seq_len = args.qkv.shape[1];
  assert(args.dqkv.num_elems() == args.qkv.num_elems());
  assert(args.dout.num_elems() == samples * seq_len * heads.width());
  const AttentionBwdNumerics& attention = *numerics().attention_bwd;
  for_each_head(exec, samples, heads.keys, attention.scratch_floats(seq_len, heads.dim),
                [&](std::int64_t sample, std::int64_t kv_head, float* scratch) {
                  const std::int64_t head = kv_head * heads.group();
                  const std::int64_t row = sample * seq_len * heads.packed();
                  const std::int64_t k = row + (heads.queries + kv_head) * heads.dim;
                  const std::int64_t out = sample * seq_len * heads.width() + head * heads.dim;
                  attention.run({.head = head_at(args, heads, sample, head),
                                 .group = heads.group(),
                                 .dout = address(args.dout, out),
                                 .lse = args.lse.as<float>() + (sample * heads.queries + head) * seq_len,
                                 .dq = address(args.dqkv, row + head * heads.dim),
                                 .dk = address(args.dqkv, k),
                                 .dv = address(args.dqkv, k + heads.keys * heads.dim),
                                 .scratch = scratch});
                });
}

void run_op(const KernelContext& exec, const CrossAttentionFwdArgs& args) {
  check_one_float_type("cross_attention_fwd", {args.q, args.k, args.v, args.out});
  check_fp32("cross_attention_fwd", {args.lse});
  const CrossHeads heads(args);
  const AttentionFwdNumerics& attention = *numerics().attention_fwd;
  for_each_head(exec, heads.samples, heads.count, attention.scratch_floats(heads.num_keys, heads.dim),
                [&](std::int64_t sample, std::int64_t head, float* scratch) {
                  AttentionFwdHead piece{.head = heads.at(args, sample, head)};
                  piece.out = const_cast<void*>(piece.head.out);
                  piece.lse = args.lse.as<float>() + (sample * heads.count + head) * heads.num_queries;
                  piece.scratch = scratch;
                  attention.run(piece);
                });
}

void run_op(const KernelContext& exec, const CrossAttentionBwdArgs& args) {
  check_one_float_type("cross_attention_bwd",
                       {args.q, args.k, args.v, args.dout, args.out, args.dq, args.dk, args.dv});
  check_fp32("cross_attention_bwd", {args.lse});
  const CrossHeads heads(args);
  const AttentionBwdNumerics& attention = *numerics().attention_bwd;
  for_each_head(
      exec, heads.samples, heads.count, attention.scratch_floats(heads.num_keys, heads.dim),
      [&](std::int64_t sample, std::int64_t head, float* scratch) {
        const std::int64_t q = heads.query(sample, head), k = heads.key(sample, head);
        attention.run({.head = heads.at(args, sample, head),
                       .group = 1,
                       .dout = address(args.dout, q),
                       .lse = args.lse.as<float>() + (sample * heads.count + head) * heads.num_queries,
                       .dq = address(args.dq, q),
                       .dk = address(args.dk, k),
                       .dv = address(args.dv, k),
                       .scratch = scratch});
      });
}

}  // namespace trireme::cpu
