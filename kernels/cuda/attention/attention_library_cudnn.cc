// Attention as cuDNN's flash-attention engines know it: graphs of products, a mask and a softmax that they
// match as a whole. Heads are read from packed rows by strides; nothing is transposed in memory.
//
// [Note: deterministic attention] The fast backward adds the tiles of dQ with atomics. Leaving out its fp32
// accumulator, so that dQ is one product of the graph, selects the engine that writes dS to a workspace of
// B * heads * T * T elements instead; engines that cuDNN marks as nondeterministic are skipped in any case.
//
// [Note: intermediates of attention] The factors of products that exist only inside of the plan,
// probabilities and the scores' gradients, are described with the type of the other factor, as tensor cores
// take them. Versions whose engines match another description are asked once more with fp32 ones; all else is
// fp32 in both.
//
// [Note: defects of cuDNN's attention] Some versions propose engines that compute wrong results or read
// beyond their tensors. cuDNN's own frontend keeps a list of them and refuses or works around; here such
// problems are the native kernels'.
#include <algorithm>
#include <compare>
#include <limits>
#include <utility>

#include "kernels/cuda/attention/attention_library.h"
#include "kernels/cuda/cudnn/cudnn_plans.h"
#include "runtime/base/buffer.h"

namespace trireme::cuda {
namespace {

struct Problem {
  std::int64_t samples = 0, heads = 0, seq_len = 0, head_dim = 0;
  std::int64_t all_heads = 0;  // of a row in memory, of which `heads` are computed
  DType dtype = DType::kBFloat16;
  bool causal = true, backward = false;
  auto operator<=>(const Problem&) const = default;

  static int forms() { return 2; }
  static const char* successor() { return "the slower native kernel runs"; }
  CudnnGraph graph(int form) const;
  EngineLimits limits() const {
    return {.refused = {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC},
            .most_workspace_bytes = static_cast<std::size_t>(attention_engine_bytes(kAttentionScoreBytes))};
  }
  cudnnDataType_t type() const { return dtype == DType::kFloat16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16; }
  std::int64_t width() const { return all_heads * head_dim; }
  CudnnGraph::Extents rows_dims() const { return {samples, heads, seq_len, head_dim}; }
  CudnnGraph::Extents transposed_dims() const { return {samples, heads, head_dim, seq_len}; }
  CudnnGraph::Extents packed_strides() const { return {seq_len * 3 * width(), head_dim, 3 * width(), 1}; }
  CudnnGraph::Extents packed_transposed_strides() const {
    return {seq_len * 3 * width(), head_dim, 1, 3 * width()};
  }
  CudnnGraph::Extents rows_strides() const { return {seq_len * width(), head_dim, width(), 1}; }
  CudnnGraph::Extents row_values_dims() const { return {samples, heads, seq_len, 1}; }
  CudnnGraph::Extents row_values_strides() const { return {all_heads * seq_len, seq_len, 1, 1}; }
  std::string text() const {
    return fmt::format("deterministic attention, {} {} of [{}, {} heads, {}, {}]", name(dtype),
                       backward ? "backward" : "forward", samples, heads, seq_len, head_dim);
  }
};

template <class Args>
Problem problem_of(const Args& args, bool backward) {
  return {.samples = args.qkv.shape[0],
          .heads = args.num_heads,
          .seq_len = args.qkv.shape[1],
          .head_dim = args.qkv.shape[2] / 3 / args.num_heads,
          .all_heads = args.num_heads,
          .dtype = args.qkv.dtype,
          .causal = args.causal,
          .backward = backward};
}

// The reason why a problem must not be given to this version of the library; null: it may. See [Note: defects
// of cuDNN's attention].
const char* defect_of(const Problem& p, std::size_t version) {
  if (version == 91000 || version == 91001) return "cuDNN 9.10.0 and 9.10.1 compute attention wrongly";
  if (p.backward && version <= 91500 && p.seq_len % 128 != 0) {
    return "backward of a sequence that is no multiple of 128 may read beyond it before cuDNN 9.15.1";
  }
  if (p.backward && p.seq_len == 1) return "cuDNN has no backward of a single token";
  return nullptr;
}

// The value that hides a score. Older versions make NaN of infinity.
float hidden_score() {
  return cudnnGetVersion() < 91000 ? std::numeric_limits<float>::lowest()
                                   : -std::numeric_limits<float>::infinity();
}

// Of the caller's tensors.
enum Id : std::int64_t { kQ = 1, kK, kV, kO, kStats, kDO, kDQ, kDK, kDV, kDelta, kScale, kOne, kHidden };

// Scores where the mask hides nothing, else what hides them.
CudnnGraph::Tensor masked(CudnnGraph& graph, const Problem& p, const CudnnGraph::Tensor& scores) {
  if (!p.causal) return scores;
  const auto row = graph.index_along(scores, 2), col = graph.index_along(scores, 3);
  return graph.select(scores, graph.scalar(kHidden), graph.is_at_least(row, col));
}

CudnnGraph forward_graph(const Problem& p, cudnnDataType_t factors) {
  CudnnGraph graph;
  const auto q = graph.input_or_output(kQ, p.type(), p.rows_dims(), p.packed_strides());
  const auto kt = graph.input_or_output(kK, p.type(), p.transposed_dims(), p.packed_transposed_strides());
  const auto v = graph.input_or_output(kV, p.type(), p.rows_dims(), p.packed_strides());
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

CudnnGraph backward_graph(const Problem& p, cudnnDataType_t factors) {
  CudnnGraph graph;
  const auto packed = [&](Id id) {
    return graph.input_or_output(id, p.type(), p.rows_dims(), p.packed_strides());
  };
  const auto transposed = [&](Id id) {
    return graph.input_or_output(id, p.type(), p.transposed_dims(), p.packed_transposed_strides());
  };
  const auto row_values = [&](Id id) {
    return graph.input_or_output(id, CUDNN_DATA_FLOAT, p.row_values_dims(), p.row_values_strides());
  };
  const auto rows = [&](Id id) {
    return graph.input_or_output(id, p.type(), p.rows_dims(), p.rows_strides());
  };
  const auto q = packed(kQ), kt = transposed(kK), vt = transposed(kV), dq = packed(kDQ), dk = packed(kDK),
             dv = packed(kDV), o = rows(kO), dout = rows(kDO), stats = row_values(kStats);
  const auto scale = graph.scalar(kScale);
  const CudnnGraph::Extents transposed_scores = {p.heads * p.seq_len * p.seq_len, p.seq_len * p.seq_len, 1,
                                                 p.seq_len};

  const auto sums = graph.reduce(CUDNN_REDUCE_TENSOR_ADD, graph.pointwise(CUDNN_POINTWISE_MUL, dout, o));
  const auto delta = graph.pointwise(CUDNN_POINTWISE_MUL, sums, graph.scalar(kOne), row_values(kDelta));
  const auto scaled = graph.pointwise(CUDNN_POINTWISE_MUL, graph.matmul(q, kt), scale);
  const auto scores = masked(graph, p, graph.pointwise(CUDNN_POINTWISE_SUB, scaled, stats));
  const auto probabilities = graph.pointwise(CUDNN_POINTWISE_EXP, scores);
  graph.matmul(graph.transpose(probabilities, transposed_scores, factors), dout, dv);
  const auto dp = graph.pointwise(CUDNN_POINTWISE_SUB, graph.matmul(dout, vt), delta);
  const auto ds =
      graph.pointwise(CUDNN_POINTWISE_MUL, graph.pointwise(CUDNN_POINTWISE_MUL, dp, probabilities), scale);
  graph.matmul(graph.transpose(ds, transposed_scores, factors), q, dk);
  graph.matmul(ds, graph.transpose(kt, p.packed_strides(), p.type()), dq);  // [Note: deterministic attention]
  return graph;
}

CudnnGraph Problem::graph(int form) const {
  if (const char* defect = defect_of(*this, cudnnGetVersion())) throw Error(ErrorCode::kUnsupported, defect);
  // See [Note: intermediates of attention].
  const cudnnDataType_t factors = form == 0 ? type() : CUDNN_DATA_FLOAT;
  return backward ? backward_graph(*this, factors) : forward_graph(*this, factors);
}

// Rows that the engines can read 16 bytes at a time.
bool is_readable(const Problem& p, std::initializer_list<const void*> pointers) {
  if (p.head_dim % 8 != 0) return false;
  for (const void* pointer : pointers) {
    if (reinterpret_cast<std::uintptr_t>(pointer) % 16 != 0) return false;
  }
  return true;
}

// Where a part begins.
struct PartPlace {
  std::int64_t sample = 0, head = 0;

  // In packed rows of 16-bit elements: queries, keys or values (0, 1, 2).
  void* packed(const void* qkv, const Problem& p, std::int64_t which) const {
    return at(qkv, (sample * p.seq_len * 3 + which) * p.width() + head * p.head_dim);
  }
  // In rows of as many elements as heads have.
  void* rows(const void* data, const Problem& p) const {
    return at(data, sample * p.seq_len * p.width() + head * p.head_dim);
  }
  // Of an fp32 value a row.
  void* row_values(const void* data, const Problem& p) const {
    return const_cast<float*>(static_cast<const float*>(data) + (sample * p.all_heads + head) * p.seq_len);
  }

 private:
  static void* at(const void* data, std::int64_t elems) {
    return const_cast<std::uint16_t*>(static_cast<const std::uint16_t*>(data) + elems);
  }
};

}  // namespace

struct AttentionLibrary::State {
  CudnnPlans<Problem> plans;
  std::shared_ptr<Allocator> allocator;
  std::int64_t score_bytes;
  bool told_of_length = false;

  bool run(const Problem& problem, const std::vector<std::pair<Id, void*>>& tensors) {
    std::vector<std::int64_t> ids;
    std::vector<void*> pointers;
    for (const auto& [id, pointer] : tensors) {
      ids.push_back(id);
      pointers.push_back(pointer);
    }
    return plans.run(problem, [&](const CudnnPlan& plan) {
      // Given back at once: see [Note: stream-ordered reuse].
      const Buffer workspace(allocator, plan.workspace_bytes(), MemoryCategory::kWorkspace);
      return plan.run(plans.handle(), ids, pointers, workspace.data());
    });
  }
};

AttentionLibrary::AttentionLibrary(std::shared_ptr<CudnnHandle> cudnn, std::shared_ptr<Allocator> allocator,
                                   std::int64_t score_bytes)
    : state_(new State{.plans = CudnnPlans<Problem>(std::move(cudnn)),
                       .allocator = std::move(allocator),
                       .score_bytes = score_bytes}) {}

AttentionLibrary::~AttentionLibrary() = default;

bool AttentionLibrary::run_fwd(const AttentionFwdArgs& args) {
  const Problem p = problem_of(args, false);
  if (!is_readable(p, {args.qkv.data, args.out.data, args.lse.data})) return false;
  if (state_->plans.plan_for(p) == nullptr) return false;
  const PartPlace all;
  float scale = args.scale, hidden = hidden_score();
  std::vector<std::pair<Id, void*>> tensors = {{kQ, all.packed(args.qkv.data, p, 0)},
                                               {kK, all.packed(args.qkv.data, p, 1)},
                                               {kV, all.packed(args.qkv.data, p, 2)},
                                               {kO, args.out.data},
                                               {kStats, args.lse.data},
                                               {kScale, &scale}};
  if (p.causal) tensors.emplace_back(kHidden, &hidden);
  return state_->run(p, tensors);
}

bool AttentionLibrary::run_bwd(const AttentionBwdArgs& args) {
  const Problem whole = problem_of(args, true);
  Problem p = whole;
  const AttentionPart part = attention_part(args, state_->score_bytes);
  p.samples = part.samples;
  p.heads = part.heads;
  if (!is_readable(p, {args.qkv.data, args.out.data, args.lse.data, args.dout.data, args.dqkv.data}))
    return false;
  if (p != whole && p.seq_len % 4 != 0) {  // a part's fp32 row values are read 16 bytes at a time
    if (!std::exchange(state_->told_of_length, true)) {
      log_warning(
          fmt::format("cuda: the backward of attention over {} tokens, no multiple of 4, cannot go in parts; "
                      "the slower native kernel runs",
                      p.seq_len));
    }
    return false;
  }
  if (state_->plans.plan_for(p) == nullptr) return false;
  const Buffer delta(state_->allocator,
                     static_cast<std::size_t>(whole.samples * whole.heads * p.seq_len) * sizeof(float),
                     MemoryCategory::kWorkspace);
  PartPlace place;
  for (; place.sample < whole.samples; place.sample += p.samples) {
    for (place.head = 0; place.head < whole.heads; place.head += p.heads) {
      float scale = args.scale, one = 1.0f, hidden = hidden_score();
      std::vector<std::pair<Id, void*>> tensors = {{kQ, place.packed(args.qkv.data, p, 0)},
                                                   {kK, place.packed(args.qkv.data, p, 1)},
                                                   {kV, place.packed(args.qkv.data, p, 2)},
                                                   {kDQ, place.packed(args.dqkv.data, p, 0)},
                                                   {kDK, place.packed(args.dqkv.data, p, 1)},
                                                   {kDV, place.packed(args.dqkv.data, p, 2)},
                                                   {kO, place.rows(args.out.data, p)},
                                                   {kDO, place.rows(args.dout.data, p)},
                                                   {kStats, place.row_values(args.lse.data, p)},
                                                   {kDelta, place.row_values(delta.data(), p)},
                                                   {kScale, &scale},
                                                   {kOne, &one}};
      if (p.causal) tensors.emplace_back(kHidden, &hidden);
      if (!state_->run(p, tensors)) return false;
    }
  }
  return true;
}

}  // namespace trireme::cuda
