// Attention as graphs that match cuDNN's flash-attention engines as a whole: products, a mask and a softmax.
// Heads are read from packed rows by strides; nothing is transposed in memory.
//
// [Note: deterministic attention] The fast backward adds the tiles of dQ with atomics. Without its fp32
// accumulator, dQ is one product of the graph. This selects the engine that writes dS to a workspace of B *
// heads * T * T elements. Engines that cuDNN marks as nondeterministic are tried last.
//
// [Note: intermediates of attention] Probabilities and score gradients exist only inside the plan and are
// factors of products. They are described with the type of the other factor, as tensor cores need. The
// transposed keys for dQ also exist only inside. cuDNN's own frontend leaves them fp32, like every tensor
// without a given type. So backward is requested in that form first, then with the keys in their own type.
// Versions whose engines match another description get one more request, with fp32 factors. All other
// intermediates are fp32 in every form. Last, all forms are requested again with engines that are marked as
// nondeterministic. Such an engine is used if it repeats its bits in a trial: several calls of the problem's
// shape, on numbers whose sums depend on their order. The trial runs when the plan is made, and is logged. It
// proves nothing: a race that shows on one rank only would give that rank another engine, and other last
// bits. Grouped queries have no such last forms, because copies of the heads may still have an engine without
// the mark.
//
// [Note: defects of cuDNN's attention] Some versions propose engines that compute wrong results or read
// beyond their tensors. cuDNN's own frontend keeps a list of them and refuses or works around them. Here,
// native kernels run these problems.
#include "kernels/cuda/attention/attention_problem_cudnn.h"

#include <limits>

namespace trireme::cuda {
namespace {

// The reason why a problem must not be given to this version of the library, or null. See
// [Note: defects of cuDNN's attention].
const char* defect_of(const AttentionProblem& p, std::size_t version) {
  if (version == 91000 || version == 91001) return "cuDNN 9.10.0 and 9.10.1 compute attention wrongly";
  if (p.backward && version <= 91500 && (p.num_queries % 128 != 0 || p.num_keys % 128 != 0)) {
    return "backward of a sequence that is no multiple of 128 may read beyond it before cuDNN 9.15.1";
  }
  if (p.backward && (p.num_queries == 1 || p.num_keys == 1)) return "cuDNN has no backward of a single token";
  return nullptr;
}

// Applies the causal mask to scores, if there is one.
CudnnGraph::Tensor masked(CudnnGraph& graph, const AttentionProblem& p, const CudnnGraph::Tensor& scores) {
  if (!p.causal) return scores;
  const auto row = graph.index_along(scores, 2), col = graph.index_along(scores, 3);
  return graph.select(scores, graph.scalar(kHidden), graph.is_at_least(row, col));
}

CudnnGraph forward_graph(const AttentionProblem& p, cudnnDataType_t factors) {
  CudnnGraph graph;
  const auto q = graph.input_or_output(kQ, p.type(), p.rows_dims(), p.query_strides());
  const auto kt = graph.input_or_output(kK, p.type(), p.transposed_dims(), p.transposed_strides());
  const auto v = graph.input_or_output(kV, p.type(), p.kv_dims(), p.kv_strides());
  const auto o = graph.input_or_output(kO, p.type(), p.rows_dims(), p.rows_strides());
  const auto stats =
      graph.input_or_output(kStats, CUDNN_DATA_FLOAT, p.row_values_dims(), p.row_values_strides());
  const auto scaled = graph.pointwise(CUDNN_POINTWISE_MUL, graph.matmul(q, kt), graph.scalar(kScale));
  const auto scores = masked(graph, p, scaled);
  const auto max = graph.reduce(CUDNN_REDUCE_TENSOR_MAX, scores);
  const auto exps = graph.pointwise(CUDNN_POINTWISE_EXP, graph.pointwise(CUDNN_POINTWISE_SUB, scores, max));
  const auto sum = graph.reduce(CUDNN_REDUCE_TENSOR_ADD, exps);
  graph.pointwise(CUDNN_POINTWISE_ADD, max, graph.pointwise(CUDNN_POINTWISE_LOG, sum), stats);
  graph.matmul(graph.pointwise(CUDNN_POINTWISE_DIV, exps, sum, {}, factors), v, o);
  return graph;
}

CudnnGraph backward_graph(const AttentionProblem& p, cudnnDataType_t factors, cudnnDataType_t keys) {
  CudnnGraph graph;
  const auto queries = [&](AttentionTensor id) {
    return graph.input_or_output(id, p.type(), p.rows_dims(), p.query_strides());
  };
  const auto keys_or_values = [&](AttentionTensor id) {
    return graph.input_or_output(id, p.type(), p.kv_dims(), p.kv_strides());
  };
  const auto transposed = [&](AttentionTensor id) {
    return graph.input_or_output(id, p.type(), p.transposed_dims(), p.transposed_strides());
  };
  const auto row_values = [&](AttentionTensor id) {
    return graph.input_or_output(id, CUDNN_DATA_FLOAT, p.row_values_dims(), p.row_values_strides());
  };
  const auto rows = [&](AttentionTensor id) {
    return graph.input_or_output(id, p.type(), p.rows_dims(), p.rows_strides());
  };
  const auto q = queries(kQ), kt = transposed(kK), vt = transposed(kV), dq = queries(kDQ),
             dk = keys_or_values(kDK), dv = keys_or_values(kDV), o = rows(kO), dout = rows(kDO),
             stats = row_values(kStats);
  const auto scale = graph.scalar(kScale);
  // See [Note: grouped queries on cuda]. cuDNN's own frontend builds the same graph.
  const auto sum_over_queries = [&](const CudnnGraph::Tensor& a, const CudnnGraph::Tensor& b,
                                    const CudnnGraph::Tensor& to) {
    if (p.kv_heads == p.heads) return graph.matmul(a, b, to);
    const auto of_queries = graph.intermediate({p.samples, p.heads, p.num_keys, p.head_dim}, p.type());
    return graph.reduce(CUDNN_REDUCE_TENSOR_ADD, graph.matmul(a, b, of_queries), to);
  };
  const std::int64_t scores_of_head = p.num_queries * p.num_keys;
  const CudnnGraph::Extents transposed_scores = {p.heads * scores_of_head, scores_of_head, 1, p.num_keys};

  const auto sums = graph.reduce(CUDNN_REDUCE_TENSOR_ADD, graph.pointwise(CUDNN_POINTWISE_MUL, dout, o));
  const auto delta = graph.pointwise(CUDNN_POINTWISE_MUL, sums, graph.scalar(kOne), row_values(kDelta));
  const auto scaled = graph.pointwise(CUDNN_POINTWISE_MUL, graph.matmul(q, kt), scale);
  const auto scores = masked(graph, p, graph.pointwise(CUDNN_POINTWISE_SUB, scaled, stats));
  const auto probabilities = graph.pointwise(CUDNN_POINTWISE_EXP, scores);
  sum_over_queries(graph.transpose(probabilities, transposed_scores, factors), dout, dv);
  const auto dp = graph.pointwise(CUDNN_POINTWISE_SUB, graph.matmul(dout, vt), delta);
  const auto ds =
      graph.pointwise(CUDNN_POINTWISE_MUL, graph.pointwise(CUDNN_POINTWISE_MUL, dp, probabilities), scale);
  sum_over_queries(graph.transpose(ds, transposed_scores, factors), q, dk);
  graph.matmul(ds, graph.transpose(kt, p.kv_strides(), keys), dq);  // [Note: deterministic attention]
  return graph;
}

}  // namespace

CudnnGraph AttentionProblem::graph(int form) const {
  if (const char* defect = defect_of(*this, cudnnGetVersion())) throw Error(ErrorCode::kUnsupported, defect);
  const cudnnDataType_t factors = factors_type(form);
  return backward ? backward_graph(*this, factors, keys_type(form)) : forward_graph(*this, factors);
}

float hidden_attention_score() {
  return cudnnGetVersion() < 91000 ? std::numeric_limits<float>::lowest()
                                   : -std::numeric_limits<float>::infinity();
}

}  // namespace trireme::cuda
