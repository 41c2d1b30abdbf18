// Attention: a piece is one head of one sample.
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

template <class Args>
AttentionHead head_at(const Args& args, std::int64_t sample, std::int64_t head) {
  const std::int64_t seq_len = args.qkv.shape[1], width = args.qkv.shape[2] / 3;
  const std::int64_t head_dim = width / args.num_heads;
  const std::int64_t q = sample * seq_len * 3 * width + head * head_dim;
  const auto global_sample = static_cast<std::uint32_t>(args.first_sample + sample);
  return {.element = element_read(args.qkv.dtype, args.math),
          .q = address(args.qkv, q),
          .k = address(args.qkv, q + width),
          .v = address(args.qkv, q + 2 * width),
          .qkv_pitch = 3 * width,
          .out = address(args.out, sample * seq_len * width + head * head_dim),
          .out_pitch = width,
          .seq_len = seq_len,
          .head_dim = head_dim,
          .scale = args.scale,
          .causal = args.causal,
          .dropout_p = args.dropout_p,
          .first_elem = head * seq_len * seq_len,
          .sample = global_sample,
          .key = philox_key(args.rng),
          .key_bounds = args.key_bounds.defined()
                            ? args.key_bounds.template as<std::int32_t>() + 2 * sample * seq_len
                            : nullptr};
}

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
  const std::int64_t samples = args.qkv.shape[0], seq_len = args.qkv.shape[1];
  const std::int64_t head_dim = args.qkv.shape[2] / 3 / args.num_heads;
  assert(args.out.num_elems() * 3 == args.qkv.num_elems());
  assert(args.lse.num_elems() == samples * args.num_heads * seq_len);
  const AttentionFwdNumerics& attention = *numerics().attention_fwd;
  for_each_head(exec, samples, args.num_heads, attention.scratch_floats(seq_len, head_dim),
                [&](std::int64_t sample, std::int64_t head, float* scratch) {
                  AttentionFwdHead piece{.head = head_at(args, sample, head)};
                  piece.out = const_cast<void*>(piece.head.out);
                  piece.lse = args.lse.as<float>() + (sample * args.num_heads + head) * seq_len;
                  piece.scratch = scratch;
                  attention.run(piece);
                });
}

void run_op(const KernelContext& exec, const AttentionBwdArgs& args) {
  check_one_float_type("attention_bwd", {args.dout, args.qkv, args.out, args.dqkv});
  check_fp32("attention_bwd", {args.lse});
  const std::int64_t samples = args.qkv.shape[0], seq_len = args.qkv.shape[1];
  const std::int64_t width = args.qkv.shape[2] / 3, head_dim = width / args.num_heads;
  assert(args.dqkv.num_elems() == args.qkv.num_elems() && args.dout.num_elems() * 3 == args.qkv.num_elems());
  const AttentionBwdNumerics& attention = *numerics().attention_bwd;
  for_each_head(exec, samples, args.num_heads, attention.scratch_floats(seq_len, head_dim),
                [&](std::int64_t sample, std::int64_t head, float* scratch) {
                  const std::int64_t q = sample * seq_len * 3 * width + head * head_dim;
                  attention.run({.head = head_at(args, sample, head),
                                 .dout = address(args.dout, sample * seq_len * width + head * head_dim),
                                 .lse = args.lse.as<float>() + (sample * args.num_heads + head) * seq_len,
                                 .dq = address(args.dqkv, q),
                                 .dk = address(args.dqkv, q + width),
                                 .dv = address(args.dqkv, q + 2 * width),
                                 .scratch = scratch});
                });
}

}  // namespace trireme::cpu
