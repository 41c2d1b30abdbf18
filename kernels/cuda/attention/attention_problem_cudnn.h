// The problems of attention for cuDNN, and the graphs that describe them.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "kernels/cuda/attention/attention_library.h"
#include "kernels/cuda/cudnn/cudnn_plans.h"

namespace trireme::cuda {

/// One call of attention: extents, and the form of its graph.
struct AttentionProblem {
  std::int64_t samples = 0, heads = 0, kv_heads = 0, num_queries = 0, num_keys = 0, head_dim = 0;
  // Heads in a row in memory. The call computes only the number of heads above.
  std::int64_t all_heads = 0, all_kv_heads = 0;
  bool repeated = false;  // see [Note: grouped queries on cuda]
  bool packed = true;     // false: queries, keys and values are separate tensors
  DType dtype = DType::kBFloat16;
  bool causal = true, backward = false;
  auto operator<=>(const AttentionProblem&) const = default;

  // See [Note: intermediates of attention].
  int descriptions() const { return backward ? 3 : 2; }
  bool is_grouped() const { return kv_heads < heads; }
  int forms() const { return (is_grouped() ? 1 : 2) * descriptions(); }
  bool wants_trial(int form) const { return form >= descriptions(); }
  cudnnDataType_t keys_type(int form) const {
    return backward && form % descriptions() == 0 ? CUDNN_DATA_FLOAT : type();
  }
  cudnnDataType_t factors_type(int form) const {
    return form % descriptions() == descriptions() - 1 ? CUDNN_DATA_FLOAT : type();
  }
  const char* successor() const {
    return is_grouped() ? "keys and values are copied for each head of queries"
                        : "the slower native kernel runs";
  }
  CudnnGraph graph(int form) const;
  EngineLimits limits(int form) const {
    // The gradients of a group's heads are in the workspace, too, perhaps in fp32.
    const std::int64_t of_queries =
        backward && is_grouped() ? 2 * samples * heads * num_keys * head_dim * std::int64_t{4} : 0;
    EngineLimits made{.most_workspace_bytes = static_cast<std::size_t>(
                          attention_engine_bytes(kAttentionScoreBytes) + of_queries)};
    (wants_trial(form) ? made.wanted : made.refused) = {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC};
    return made;
  }
  cudnnDataType_t type() const { return dtype == DType::kFloat16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16; }
  // Elements of a row of the output, of packed queries, and of keys or values.
  std::int64_t width() const { return all_heads * head_dim; }
  std::int64_t pitch() const { return packed ? (all_heads + 2 * all_kv_heads) * head_dim : width(); }
  std::int64_t kv_pitch() const { return repeated ? 2 * width() : pitch(); }
  CudnnGraph::Extents rows_dims() const { return {samples, heads, num_queries, head_dim}; }
  CudnnGraph::Extents kv_dims() const { return {samples, kv_heads, num_keys, head_dim}; }
  CudnnGraph::Extents transposed_dims() const { return {samples, kv_heads, head_dim, num_keys}; }
  CudnnGraph::Extents query_strides() const { return {num_queries * pitch(), head_dim, pitch(), 1}; }
  CudnnGraph::Extents kv_strides() const { return {num_keys * kv_pitch(), head_dim, kv_pitch(), 1}; }
  CudnnGraph::Extents transposed_strides() const { return {num_keys * kv_pitch(), head_dim, 1, kv_pitch()}; }
  CudnnGraph::Extents rows_strides() const { return {num_queries * width(), head_dim, width(), 1}; }
  CudnnGraph::Extents row_values_dims() const { return {samples, heads, num_queries, 1}; }
  CudnnGraph::Extents row_values_strides() const { return {all_heads * num_queries, num_queries, 1, 1}; }
  std::string text() const {
    const std::string grouped = is_grouped() ? fmt::format(" on {}", kv_heads) : "";
    const std::string to_keys = packed ? "" : fmt::format(" to {}", num_keys);
    return fmt::format("deterministic attention, {} {} of [{}, {}{} heads, {}{}, {}]", name(dtype),
                       backward ? "backward" : "forward", samples, heads, grouped, num_queries, to_keys,
                       head_dim);
  }
};

template <class Args>
AttentionProblem attention_problem(const Args& args, bool backward, bool repeated) {
  const PackedHeads heads = packed_heads(args);
  return {.samples = args.qkv.shape[0],
          .heads = heads.queries,
          .kv_heads = repeated ? heads.queries : heads.keys,
          .num_queries = args.qkv.shape[1],
          .num_keys = args.qkv.shape[1],
          .head_dim = heads.dim,
          .all_heads = heads.queries,
          .all_kv_heads = heads.keys,
          .repeated = repeated,
          .dtype = args.qkv.dtype,
          .causal = args.causal,
          .backward = backward};
}

template <class Args>
AttentionProblem cross_attention_problem(const Args& args, bool backward) {
  return {.samples = args.q.shape[0],
          .heads = args.num_heads,
          .kv_heads = args.num_heads,
          .num_queries = args.q.shape[1],
          .num_keys = args.k.shape[1],
          .head_dim = args.q.shape[2] / args.num_heads,
          .all_heads = args.num_heads,
          .all_kv_heads = args.num_heads,
          .packed = false,
          .dtype = args.q.dtype,
          .causal = false,
          .backward = backward};
}

/// Ids of the caller's tensors in a graph.
enum AttentionTensor : std::int64_t {
  kQ = 1,
  kK,
  kV,
  kO,
  kStats,
  kDO,
  kDQ,
  kDK,
  kDV,
  kDelta,
  kScale,
  kOne,
  kHidden
};

/// The value of a masked score. Versions before 9.10 turn infinity into NaN.
float hidden_attention_score();

}  // namespace trireme::cuda
