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
// bits.
//
// [Note: defects of cuDNN's attention] Some versions propose engines that compute wrong results or read
// beyond their tensors. cuDNN's own frontend keeps a list of them and refuses or works around them. Here,
// native kernels run these problems.
#include <cassert>
#include <cmath>
#include <compare>
#include <limits>
#include <utility>

#include "kernels/cuda/attention/attention_library.h"
#include "kernels/cuda/cudnn/cudnn_plans.h"
#include "kernels/cuda/cudnn/repeated_call.h"
#include "runtime/base/buffer.h"

namespace trireme::cuda {
namespace {

struct Problem {
  std::int64_t samples = 0, heads = 0, kv_heads = 0, num_queries = 0, num_keys = 0, head_dim = 0;
  // Heads in a row in memory. The call computes only the number of heads above.
  std::int64_t all_heads = 0, all_kv_heads = 0;
  bool repeated = false;  // see [Note: grouped queries on cuda]
  bool packed = true;     // false: queries, keys and values are separate tensors
  DType dtype = DType::kBFloat16;
  bool causal = true, backward = false;
  auto operator<=>(const Problem&) const = default;

  // See [Note: intermediates of attention].
  int descriptions() const { return backward ? 3 : 2; }
  int forms() const { return 2 * descriptions(); }
  bool wants_trial(int form) const { return form >= descriptions(); }
  cudnnDataType_t keys_type(int form) const {
    return backward && form % descriptions() == 0 ? CUDNN_DATA_FLOAT : type();
  }
  cudnnDataType_t factors_type(int form) const {
    return form % descriptions() == descriptions() - 1 ? CUDNN_DATA_FLOAT : type();
  }
  const char* successor() const {
    return kv_heads < heads ? "keys and values are copied for each head of queries"
                            : "the slower native kernel runs";
  }
  CudnnGraph graph(int form) const;
  EngineLimits limits(int form) const {
    EngineLimits made{.most_workspace_bytes =
                          static_cast<std::size_t>(attention_engine_bytes(kAttentionScoreBytes))};
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
    const std::string grouped = kv_heads < heads ? fmt::format(" on {}", kv_heads) : "";
    const std::string to_keys = packed ? "" : fmt::format(" to {}", num_keys);
    return fmt::format("deterministic attention, {} {} of [{}, {}{} heads, {}{}, {}]", name(dtype),
                       backward ? "backward" : "forward", samples, heads, grouped, num_queries, to_keys,
                       head_dim);
  }
};

template <class Args>
Problem problem_of(const Args& args, bool backward, bool repeated) {
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
Problem cross_problem_of(const Args& args, bool backward) {
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

// The reason why a problem must not be given to this version of the library, or null. See
// [Note: defects of cuDNN's attention].
const char* defect_of(const Problem& p, std::size_t version) {
  if (version == 91000 || version == 91001) return "cuDNN 9.10.0 and 9.10.1 compute attention wrongly";
  if (p.backward && version <= 91500 && (p.num_queries % 128 != 0 || p.num_keys % 128 != 0)) {
    return "backward of a sequence that is no multiple of 128 may read beyond it before cuDNN 9.15.1";
  }
  if (p.backward && (p.num_queries == 1 || p.num_keys == 1)) return "cuDNN has no backward of a single token";
  return nullptr;
}

// The value of a masked score. Versions before 9.10 turn infinity into NaN.
float hidden_score() {
  return cudnnGetVersion() < 91000 ? std::numeric_limits<float>::lowest()
                                   : -std::numeric_limits<float>::infinity();
}

// Ids of the caller's tensors.
enum Id : std::int64_t { kQ = 1, kK, kV, kO, kStats, kDO, kDQ, kDK, kDV, kDelta, kScale, kOne, kHidden };

// Applies the causal mask to scores, if there is one.
CudnnGraph::Tensor masked(CudnnGraph& graph, const Problem& p, const CudnnGraph::Tensor& scores) {
  if (!p.causal) return scores;
  const auto row = graph.index_along(scores, 2), col = graph.index_along(scores, 3);
  return graph.select(scores, graph.scalar(kHidden), graph.is_at_least(row, col));
}

CudnnGraph forward_graph(const Problem& p, cudnnDataType_t factors) {
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

CudnnGraph backward_graph(const Problem& p, cudnnDataType_t factors, cudnnDataType_t keys) {
  CudnnGraph graph;
  const auto queries = [&](Id id) {
    return graph.input_or_output(id, p.type(), p.rows_dims(), p.query_strides());
  };
  const auto keys_or_values = [&](Id id) {
    return graph.input_or_output(id, p.type(), p.kv_dims(), p.kv_strides());
  };
  const auto transposed = [&](Id id) {
    return graph.input_or_output(id, p.type(), p.transposed_dims(), p.transposed_strides());
  };
  const auto row_values = [&](Id id) {
    return graph.input_or_output(id, CUDNN_DATA_FLOAT, p.row_values_dims(), p.row_values_strides());
  };
  const auto rows = [&](Id id) {
    return graph.input_or_output(id, p.type(), p.rows_dims(), p.rows_strides());
  };
  const auto q = queries(kQ), kt = transposed(kK), vt = transposed(kV), dq = queries(kDQ),
             dk = keys_or_values(kDK), dv = keys_or_values(kDV), o = rows(kO), dout = rows(kDO),
             stats = row_values(kStats);
  const auto scale = graph.scalar(kScale);
  const std::int64_t scores_of_head = p.num_queries * p.num_keys;
  const CudnnGraph::Extents transposed_scores = {p.heads * scores_of_head, scores_of_head, 1, p.num_keys};

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
  graph.matmul(ds, graph.transpose(kt, p.kv_strides(), keys), dq);  // [Note: deterministic attention]
  return graph;
}

CudnnGraph Problem::graph(int form) const {
  if (const char* defect = defect_of(*this, cudnnGetVersion())) throw Error(ErrorCode::kUnsupported, defect);
  const cudnnDataType_t factors = factors_type(form);
  return backward ? backward_graph(*this, factors, keys_type(form)) : forward_graph(*this, factors);
}

// True if engines can read the rows 16 bytes at a time.
bool is_readable(const Problem& p, std::initializer_list<const void*> pointers) {
  if (p.head_dim % 8 != 0) return false;
  for (const void* pointer : pointers) {
    if (reinterpret_cast<std::uintptr_t>(pointer) % 16 != 0) return false;
  }
  return true;
}

// The start of a part.
struct PartPlace {
  std::int64_t sample = 0, head = 0;

  // Start within samples of `rows` rows of `pitch` 16-bit elements.
  void* rows(const void* data, const Problem& p, std::int64_t rows, std::int64_t pitch) const {
    const std::int64_t elems = sample * rows * pitch + head * p.head_dim;
    return const_cast<std::uint16_t*>(static_cast<const std::uint16_t*>(data) + elems);
  }
  // Start within fp32 values, one per row of scores.
  void* row_values(const void* data, const Problem& p) const {
    return const_cast<float*>(static_cast<const float*>(data) +
                              (sample * p.all_heads + head) * p.num_queries);
  }
};

// The caller's memory for a whole problem. A forward uses the first five.
struct Operands {
  const void *q = nullptr, *k = nullptr, *v = nullptr, *out = nullptr, *lse = nullptr, *dout = nullptr;
  void *dq = nullptr, *dk = nullptr, *dv = nullptr, *delta = nullptr;
};

// Keys and values, or their gradients: within packed rows, or in other memory (copied heads; for the trial of
// a cross-attention, one tensor after the other).
struct KeysAndValues {
  void *keys, *values;
};
KeysAndValues keys_and_values(const Problem& p, const void* packed, void* others) {
  auto* const data = static_cast<std::uint16_t*>(others != nullptr ? others : const_cast<void*>(packed));
  if (!p.packed) return {data, data + p.samples * p.num_keys * p.width()};
  const std::int64_t first = p.repeated ? 0 : p.width(),
                     row = p.repeated ? p.width() : p.all_kv_heads * p.head_dim;
  return {data + first, data + first + row};
}

// Host scalars that a plan reads when it runs.
struct Scalars {
  float scale = 1.0f, one = 1.0f, hidden = hidden_score();
};

using Tensors = std::vector<std::pair<Id, void*>>;

Tensors tensors_of(const Problem& p, const PartPlace& place, const Operands& memory, Scalars& scalars) {
  const auto q = [&](const void* data) { return place.rows(data, p, p.num_queries, p.pitch()); };
  const auto kv = [&](const void* data) { return place.rows(data, p, p.num_keys, p.kv_pitch()); };
  const auto out = [&](const void* data) { return place.rows(data, p, p.num_queries, p.width()); };
  Tensors tensors = {{kQ, q(memory.q)},        {kK, kv(memory.k)},
                     {kV, kv(memory.v)},       {kO, out(memory.out)},
                     {kScale, &scalars.scale}, {kStats, place.row_values(memory.lse, p)}};
  if (p.backward) {
    tensors.insert(tensors.end(), {{kDQ, q(memory.dq)},
                                   {kDK, kv(memory.dk)},
                                   {kDV, kv(memory.dv)},
                                   {kDO, out(memory.dout)},
                                   {kDelta, place.row_values(memory.delta, p)},
                                   {kOne, &scalars.one}});
  }
  if (p.causal) tensors.emplace_back(kHidden, &scalars.hidden);
  return tensors;
}

}  // namespace

struct AttentionLibrary::State {
  State(std::shared_ptr<CudnnHandle> cudnn, std::shared_ptr<Allocator> memory, std::int64_t most_bytes)
      : plans(std::move(cudnn),
              [this](const Problem& problem, int form, const CudnnPlan& plan) {
                return !problem.wants_trial(form) || repeats(problem, plan);
              }),
        allocator(std::move(memory)),
        score_bytes(most_bytes) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  CudnnPlans<Problem> plans;
  std::shared_ptr<Allocator> allocator;
  std::int64_t score_bytes;
  bool told_of_length = false;

  bool run(const CudnnPlan& plan, const Tensors& tensors) {
    std::vector<std::int64_t> ids;
    std::vector<void*> pointers;
    for (const auto& [id, pointer] : tensors) {
      ids.push_back(id);
      pointers.push_back(pointer);
    }
    // Freed at once: see [Note: stream-ordered reuse].
    const Buffer workspace(allocator, plan.workspace_bytes(), MemoryCategory::kWorkspace);
    return plan.run(plans.handle(), ids, pointers, workspace.data());
  }
  bool run(const Problem& problem, const Tensors& tensors) {
    return plans.run(problem, [&](const CudnnPlan& plan) { return run(plan, tensors); });
  }

  // A backward in equal parts. Sets memory.delta.
  bool run_in_parts(const Problem& whole, const AttentionPart& part, float scale, Operands memory);
  // Warns once, and returns false.
  bool refuse_parts(std::int64_t tokens);

  // The trial of [Note: intermediates of attention].
  bool repeats(const Problem& p, const CudnnPlan& plan) {
    // Elements. Keys and values are inside of q, copies of all heads, or separate.
    const auto elems = [](std::int64_t count) { return static_cast<std::size_t>(count); };
    const std::size_t rows = elems(p.samples * p.num_queries * p.all_heads),
                      q_elems = elems(p.samples * p.num_queries * p.pitch()),
                      kv_elems = p.packed && !p.repeated ? 0 : elems(2 * p.samples * p.num_keys * p.width()),
                      out_elems = elems(p.samples * p.num_queries * p.width());
    const auto memory = [&](std::size_t bytes) {
      return Buffer(allocator, bytes, MemoryCategory::kWorkspace);
    };
    const auto numbers = [&](std::size_t count) {
      Buffer made = memory(2 * count);
      if (count > 0) fill_for_trial(plans.stream(), made.data(), count, p.dtype);
      return made;
    };
    const Buffer qkv = numbers(q_elems), kv = numbers(kv_elems), out = numbers(out_elems),
                 dout = numbers(out_elems), dqkv = memory(2 * q_elems), dkv = memory(2 * kv_elems),
                 lse = memory(4 * rows), delta = memory(4 * rows);
    // A log-sum-exp for which scores around 0 give probabilities of about 1 / S.
    const std::vector<float> values(rows, std::log(static_cast<float>(p.num_keys)));
    check(cudaMemcpyAsync(lse.data(), values.data(), 4 * rows, cudaMemcpyHostToDevice, plans.stream()),
          "copy to the card");
    Scalars scalars{.scale = 1.0f / std::sqrt(static_cast<float>(p.head_dim))};
    const auto [k, v] = keys_and_values(p, qkv.data(), kv_elems > 0 ? kv.data() : nullptr);
    const auto [dk, dv] = keys_and_values(p, dqkv.data(), kv_elems > 0 ? dkv.data() : nullptr);
    const Tensors tensors = tensors_of(p, {},
                                       {.q = qkv.data(),
                                        .k = k,
                                        .v = v,
                                        .out = out.data(),
                                        .lse = lse.data(),
                                        .dout = dout.data(),
                                        .dq = dqkv.data(),
                                        .dk = dk,
                                        .dv = dv,
                                        .delta = delta.data()},
                                       scalars);
    std::vector<CallOutput> outputs;
    if (!p.backward) outputs = {{out.data(), 2 * out_elems}, {lse.data(), 4 * rows}};
    if (p.backward) outputs = {{dqkv.data(), 2 * q_elems}};
    if (p.backward && kv_elems > 0) outputs.push_back({dkv.data(), 2 * kv_elems});
    const bool repeated = repeats_its_bits(plans.stream(), outputs, [&] { return run(plan, tensors); });
    log_warning(fmt::format(
        "cuda: cuDNN {} marks proposal {} for {} as nondeterministic; it {}", cudnn_version(), plan.place(),
        p.text(), repeated ? "repeats its bits in a trial, and is taken" : "does not repeat its bits"));
    return repeated;
  }
};

AttentionLibrary::AttentionLibrary(std::shared_ptr<CudnnHandle> cudnn, std::shared_ptr<Allocator> allocator,
                                   std::int64_t score_bytes)
    : state_(std::make_unique<State>(std::move(cudnn), std::move(allocator), score_bytes)) {}

AttentionLibrary::~AttentionLibrary() = default;

bool AttentionLibrary::exists() {
  return true;
}

bool AttentionLibrary::run_fwd(const AttentionFwdArgs& args, const RepeatedHeads* repeated) {
  const Problem p = problem_of(args, false, repeated != nullptr);
  if (!is_readable(p, {args.qkv.data, args.out.data, args.lse.data})) return false;
  if (state_->plans.plan_for(p) == nullptr) return false;
  Scalars scalars{.scale = args.scale};
  const auto [k, v] = keys_and_values(p, args.qkv.data, repeated != nullptr ? repeated->rows : nullptr);
  const Operands memory{.q = args.qkv.data, .k = k, .v = v, .out = args.out.data, .lse = args.lse.data};
  return state_->run(p, tensors_of(p, {}, memory, scalars));
}

bool AttentionLibrary::run_fwd(const CrossAttentionFwdArgs& args) {
  const Problem p = cross_problem_of(args, false);
  if (!is_readable(p, {args.q.data, args.k.data, args.v.data, args.out.data, args.lse.data})) return false;
  if (state_->plans.plan_for(p) == nullptr) return false;
  Scalars scalars{.scale = args.scale};
  const Operands memory{
      .q = args.q.data, .k = args.k.data, .v = args.v.data, .out = args.out.data, .lse = args.lse.data};
  return state_->run(p, tensors_of(p, {}, memory, scalars));
}

bool AttentionLibrary::State::run_in_parts(const Problem& whole, const AttentionPart& part, float scale,
                                           Operands memory) {
  Problem p = whole;
  p.samples = part.samples;
  p.heads = p.kv_heads = part.heads;
  assert(whole.kv_heads == whole.heads);
  if (plans.plan_for(p) == nullptr) return false;
  const Buffer delta(allocator,
                     static_cast<std::size_t>(whole.samples * whole.heads * p.num_queries) * sizeof(float),
                     MemoryCategory::kWorkspace);
  memory.delta = delta.data();
  PartPlace place;
  for (; place.sample < whole.samples; place.sample += p.samples) {
    for (place.head = 0; place.head < whole.heads; place.head += p.heads) {
      Scalars scalars{.scale = scale};
      if (!run(p, tensors_of(p, place, memory, scalars))) return false;
    }
  }
  return true;
}

bool AttentionLibrary::State::refuse_parts(std::int64_t tokens) {
  if (!std::exchange(told_of_length, true)) {
    log_warning(
        fmt::format("cuda: the backward of attention over {} tokens, no multiple of 4, cannot go in parts; "
                    "the slower native kernel runs",
                    tokens));
  }
  return false;
}

bool AttentionLibrary::run_bwd(const AttentionBwdArgs& args, const RepeatedHeads* repeated) {
  const Problem p = problem_of(args, true, repeated != nullptr);
  const AttentionPart part = attention_part(args, state_->score_bytes);
  if (!is_readable(p, {args.qkv.data, args.out.data, args.lse.data, args.dout.data, args.dqkv.data}))
    return false;
  if (!goes_in_parts(args, part)) return state_->refuse_parts(p.num_queries);
  const auto [k, v] = keys_and_values(p, args.qkv.data, repeated != nullptr ? repeated->rows : nullptr);
  const auto [dk, dv] =
      keys_and_values(p, args.dqkv.data, repeated != nullptr ? repeated->gradients : nullptr);
  return state_->run_in_parts(p, part, args.scale,
                              {.q = args.qkv.data,
                               .k = k,
                               .v = v,
                               .out = args.out.data,
                               .lse = args.lse.data,
                               .dout = args.dout.data,
                               .dq = args.dqkv.data,
                               .dk = dk,
                               .dv = dv});
}

bool AttentionLibrary::run_bwd(const CrossAttentionBwdArgs& args) {
  const Problem p = cross_problem_of(args, true);
  const AttentionPart part = attention_part(args, state_->score_bytes);
  if (!is_readable(p, {args.q.data, args.k.data, args.v.data, args.out.data, args.lse.data, args.dout.data,
                       args.dq.data, args.dk.data, args.dv.data}))
    return false;
  if (!goes_in_parts(args, part)) return state_->refuse_parts(p.num_queries);
  return state_->run_in_parts(p, part, args.scale,
                              {.q = args.q.data,
                               .k = args.k.data,
                               .v = args.v.data,
                               .out = args.out.data,
                               .lse = args.lse.data,
                               .dout = args.dout.data,
                               .dq = args.dq.data,
                               .dk = args.dk.data,
                               .dv = args.dv.data});
}

}  // namespace trireme::cuda
