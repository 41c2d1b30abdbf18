// The workspace of attention's backward on cuda. It depends on the shapes alone. kernels/cuda allocates it,
// and the meta backend counts it when it predicts the memory of a CUDA job.
//
// [Note: parts of an attention] cuDNN before 9.25 writes the score gradients of a deterministic backward to a
// workspace that grows with T * T: 3.4 GB for 25 heads of 8192 tokens. A backward therefore runs in parts
// whose score gradients need at most 1 GiB. A part is several samples, or several heads of one sample: whole
// groups of heads that share keys, if a group fits. All parts are equal and share one plan. The shape alone
// decides the split, not the library's version. The whole workspace of an engine may be a quarter larger.
// From T = 25906 on, a single head needs more than that, and the native kernel runs.
#pragma once

#include <algorithm>

#include "kernels/backend_diffusion_ops.h"
#include "kernels/backend_ops.h"
#include "kernels/product_workspace.h"

namespace trireme {

/// The largest buffer of score gradients that one part of a backward may write.
inline constexpr std::int64_t kAttentionScoreBytes = std::int64_t{1} << 30;

/// The largest workspace accepted from an engine for a part of `score_bytes`.
constexpr std::int64_t attention_engine_bytes(std::int64_t score_bytes) {
  return score_bytes / 4 * 5;
}

/// True if the window of an attention is shorter than the row.
template <class Args>
bool hides_keys(const Args& args) {
  return args.window > 0 && args.window < args.qkv.shape[1];
}

/// True where cuDNN can compute this attention. It has no fp32 attention, its dropout does not follow
/// [Note: random numbers], and it reads the rows of heads in units of 16 bytes. Documents within a row and
/// sliding windows run on the native kernel.
template <class Args>
bool suits_attention_library(const Args& args) {
  if constexpr (requires { args.qkv; }) {
    return size_bytes(args.qkv.dtype) == 2 && args.dropout_p <= 0.0f && !args.key_bounds.defined() &&
           !hides_keys(args) && args.qkv.num_elems() > 0 && packed_heads(args).dim % 8 == 0;
  } else {
    return size_bytes(args.q.dtype) == 2 && args.q.num_elems() > 0 && args.k.num_elems() > 0 &&
           args.q.shape[2] / args.num_heads % 8 == 0;
  }
}

/// The samples and heads that one call computes.
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

/// The scores of a backward.
struct AttentionScores {
  std::int64_t samples, heads, group, queries, keys;
  DType dtype;

  std::int64_t head_bytes() const { return queries * keys * size_bytes(dtype); }
};
inline AttentionScores scores_of(const AttentionBwdArgs& args) {
  const std::int64_t seq_len = args.qkv.shape[1];
  return {args.qkv.shape[0], args.num_heads, packed_heads(args).group(), seq_len, seq_len, args.qkv.dtype};
}
inline AttentionScores scores_of(const CrossAttentionBwdArgs& args) {
  return {args.q.shape[0], args.num_heads, 1, args.q.shape[1], args.k.shape[1], args.q.dtype};
}

/// See [Note: parts of an attention].
template <class Args>
AttentionPart attention_part(const Args& args, std::int64_t score_bytes = kAttentionScoreBytes) {
  const AttentionScores all = scores_of(args);
  const std::int64_t head_bytes = all.head_bytes();
  if (all.heads * head_bytes > score_bytes) {
    const std::int64_t unit = all.group * head_bytes > score_bytes ? 1 : all.group;
    return {1, unit * divisor_within(all.heads / unit, score_bytes / (unit * head_bytes))};
  }
  return {divisor_within(all.samples, score_bytes / (all.heads * head_bytes)), all.heads};
}

/// Splitting needs rows whose fp32 values begin at multiples of 16 bytes, which cuDNN requires of a part.
template <class Args>
bool goes_in_parts(const Args& args, const AttentionPart& part) {
  const AttentionScores scores = scores_of(args);
  return (part.samples == scores.samples && part.heads == scores.heads) || scores.queries % 4 == 0;
}

/// Bytes of the copied keys and values of `samples` samples in [Note: grouped queries on cuda]. Their
/// gradients have the same size.
inline std::int64_t repeated_heads_bytes(ConstTensorView qkv, const PackedHeads& heads,
                                         std::int64_t samples) {
  return samples * qkv.shape[1] * 2 * heads.width() * size_bytes(qkv.dtype);
}

/// The samples at a time whose keys and values are copied. Copies for whole groups are made where cuDNN has
/// refused the actual heads. Half of a part then needs no more memory than attention_bwd_workspace() counts.
inline std::int64_t copied_samples(const PackedHeads& heads, const AttentionPart& part) {
  const bool is_refused = part.heads % heads.group() == 0;
  return is_refused ? divisor_within(part.samples, part.samples / 2) : part.samples;
}

/// Bytes that the backward allocates beside its tensors: the score gradients of a part, and one sum per row
/// of scores. For grouped queries also the gradients of keys and values for each query head, and, if a part
/// is less than a group, copies of the keys and values. 0 where the native kernel runs. Later versions of
/// cuDNN need less. More is needed for parts of one sample whose actual heads cuDNN refuses.
inline std::int64_t attention_bwd_workspace(const AttentionBwdArgs& args,
                                            std::int64_t score_bytes = kAttentionScoreBytes) {
  if (!suits_attention_library(args)) return 0;
  const PackedHeads heads = packed_heads(args);
  const std::int64_t seq_len = args.qkv.shape[1];
  const AttentionPart part = attention_part(args, score_bytes);
  const std::int64_t scores = part.samples * part.heads * seq_len * seq_len * size_bytes(args.qkv.dtype);
  if (scores > attention_engine_bytes(score_bytes) || !goes_in_parts(args, part)) return 0;
  const auto sums_of = [&](std::int64_t samples) {
    return charged_bytes(samples * heads.queries * seq_len * std::int64_t{sizeof(float)});
  };
  const std::int64_t of_queries = repeated_heads_bytes(args.qkv, heads, part.samples);
  if (part.heads % heads.group() != 0) {
    return charged_bytes(scores) + sums_of(part.samples) + 2 * charged_bytes(of_queries);
  }
  const std::int64_t gradients = heads.group() > 1 ? of_queries / heads.queries * part.heads : 0;
  return charged_bytes(scores + gradients) + sums_of(args.qkv.shape[0]);
}

/// The same for cross-attention, whose heads are never grouped.
inline std::int64_t attention_bwd_workspace(const CrossAttentionBwdArgs& args,
                                            std::int64_t score_bytes = kAttentionScoreBytes) {
  if (!suits_attention_library(args)) return 0;
  const AttentionScores all = scores_of(args);
  const AttentionPart part = attention_part(args, score_bytes);
  const std::int64_t scores = part.samples * part.heads * all.head_bytes();
  if (scores > attention_engine_bytes(score_bytes) || !goes_in_parts(args, part)) return 0;
  return charged_bytes(scores) +
         charged_bytes(all.samples * all.heads * all.queries * std::int64_t{sizeof(float)});
}

}  // namespace trireme
