// The workspace of attention's backward on cuda, a function of the shapes alone: kernels/cuda keeps to it,
// and the meta backend counts it for jobs that will run there.
//
// [Note: parts of an attention] cuDNN before 9.25 writes the scores' gradients of a deterministic backward to
// a workspace that grows with T * T: 3.4 GB for 25 heads of 8192 tokens. So a backward is computed by as many
// samples at a time, else by as many heads of a sample, as need at most 1 GiB for it, equal parts with one
// plan. The shape alone decides, not the library's version. An engine may have a quarter more in all; one
// head alone needs more than that from T = 25906 on, and the native kernel runs.
#pragma once

#include <algorithm>

#include "kernels/backend_ops.h"
#include "kernels/product_workspace.h"

namespace trireme {

/// The most that a backward may write of its scores' gradients at a time.
inline constexpr std::int64_t kAttentionScoreBytes = std::int64_t{1} << 30;

/// The most workspace that an engine may have for a part of `score_bytes`.
constexpr std::int64_t attention_engine_bytes(std::int64_t score_bytes) {
  return score_bytes / 4 * 5;
}

/// The library has no fp32 attention, its dropout draws other numbers than [Note: random numbers] says, and
/// it reads rows of heads 16 bytes at a time. Documents within a row are the native kernel's.
template <class Args>
bool suits_attention_library(const Args& args) {
  return size_bytes(args.qkv.dtype) == 2 && args.dropout_p <= 0.0f && !args.key_bounds.defined() &&
         args.qkv.num_elems() > 0 && packed_heads(args).dim % 8 == 0;
}

/// What is computed at a time.
struct AttentionPart {
  std::int64_t samples = 0, heads = 0;
};

/// The largest divisor of n that is at most `most`, or 1.
inline std::int64_t divisor_within(std::int64_t n, std::int64_t most) {
  for (std::int64_t divisor = std::min(n, most); divisor > 1; --divisor) {
    if (n % divisor == 0) return divisor;
  }
  return 1;
}

/// See [Note: parts of an attention].
inline AttentionPart attention_part(const AttentionBwdArgs& args,
                                    std::int64_t score_bytes = kAttentionScoreBytes) {
  const std::int64_t samples = args.qkv.shape[0], heads = args.num_heads, seq_len = args.qkv.shape[1];
  const std::int64_t head_bytes = seq_len * seq_len * size_bytes(args.qkv.dtype);
  if (heads * head_bytes > score_bytes) return {1, divisor_within(heads, score_bytes / head_bytes)};
  return {divisor_within(samples, score_bytes / (heads * head_bytes)), heads};
}

/// The library takes no part of rows whose fp32 values do not begin at multiples of 16 bytes.
inline bool goes_in_parts(const AttentionBwdArgs& args, const AttentionPart& part) {
  return (part.samples == args.qkv.shape[0] && part.heads == args.num_heads) || args.qkv.shape[1] % 4 == 0;
}

/// Of the copied keys and values of `samples` samples in [Note: grouped queries on cuda], or of their
/// gradients.
inline std::int64_t repeated_heads_bytes(ConstTensorView qkv, const PackedHeads& heads,
                                         std::int64_t samples) {
  return samples * qkv.shape[1] * 2 * heads.width() * size_bytes(qkv.dtype);
}

/// The bytes that the backward holds beside its tensors while it runs: the gradients of a part's scores, a
/// sum for each row of scores, and for grouped queries the copied keys and values with their gradients. 0
/// where the native kernel runs. Later versions of the library need less.
inline std::int64_t attention_bwd_workspace(const AttentionBwdArgs& args,
                                            std::int64_t score_bytes = kAttentionScoreBytes) {
  if (!suits_attention_library(args)) return 0;
  const PackedHeads heads = packed_heads(args);
  const std::int64_t seq_len = args.qkv.shape[1];
  const AttentionPart part = attention_part(args, score_bytes);
  const std::int64_t scores = part.samples * part.heads * seq_len * seq_len * size_bytes(args.qkv.dtype);
  if (scores > attention_engine_bytes(score_bytes) || !goes_in_parts(args, part)) return 0;
  const std::int64_t samples = heads.group() > 1 ? part.samples : args.qkv.shape[0];
  const std::int64_t copies =
      heads.group() > 1 ? 2 * charged_bytes(repeated_heads_bytes(args.qkv, heads, samples)) : 0;
  const std::int64_t rows = samples * heads.queries * seq_len;
  return charged_bytes(scores) + charged_bytes(rows * std::int64_t{sizeof(float)}) + copies;
}

}  // namespace trireme
