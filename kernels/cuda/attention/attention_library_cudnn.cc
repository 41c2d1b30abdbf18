// Attention by cuDNN: its plans run on the caller's memory, whole or in parts.
#include "kernels/cuda/attention/attention_library.h"

#include <cmath>
#include <utility>

#include "kernels/cuda/attention/attention_problem_cudnn.h"
#include "kernels/cuda/cudnn/repeated_call.h"
#include "runtime/base/buffer.h"

namespace trireme::cuda {
namespace {

// True if engines can read the rows 16 bytes at a time.
bool is_readable(const AttentionProblem& p, std::initializer_list<const void*> pointers) {
  if (p.head_dim % 8 != 0) return false;
  for (const void* pointer : pointers) {
    if (reinterpret_cast<std::uintptr_t>(pointer) % 16 != 0) return false;
  }
  return true;
}

// The start of a part.
struct PartPlace {
  std::int64_t sample = 0, head = 0;

  // Start within samples of `rows` rows of `pitch` 16-bit elements, with `heads` heads in a part.
  void* rows(const void* data, const AttentionProblem& p, std::int64_t rows, std::int64_t pitch,
             std::int64_t heads) const {
    const std::int64_t elems = sample * rows * pitch + head / p.heads * heads * p.head_dim;
    return const_cast<std::uint16_t*>(static_cast<const std::uint16_t*>(data) + elems);
  }
  // Start within fp32 values, one per row of scores.
  void* row_values(const void* data, const AttentionProblem& p) const {
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
KeysAndValues keys_and_values(const AttentionProblem& p, const void* packed, void* others) {
  auto* const data = static_cast<std::uint16_t*>(others != nullptr ? others : const_cast<void*>(packed));
  if (!p.packed) return {data, data + p.samples * p.num_keys * p.width()};
  const std::int64_t first = p.repeated ? 0 : p.width(),
                     row = p.repeated ? p.width() : p.all_kv_heads * p.head_dim;
  return {data + first, data + first + row};
}

// Host scalars that a plan reads when it runs.
struct Scalars {
  float scale = 1.0f, one = 1.0f, hidden = hidden_attention_score();
};

using Tensors = std::vector<std::pair<AttentionTensor, void*>>;

Tensors tensors_of(const AttentionProblem& p, const PartPlace& place, const Operands& memory,
                   Scalars& scalars) {
  const auto q = [&](const void* data) { return place.rows(data, p, p.num_queries, p.pitch(), p.heads); };
  const auto kv = [&](const void* data) { return place.rows(data, p, p.num_keys, p.kv_pitch(), p.kv_heads); };
  const auto out = [&](const void* data) { return place.rows(data, p, p.num_queries, p.width(), p.heads); };
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
              [this](const AttentionProblem& problem, int form, const CudnnPlan& plan) {
                return !problem.wants_trial(form) || repeats(problem, plan);
              }),
        allocator(std::move(memory)),
        score_bytes(most_bytes) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  CudnnPlans<AttentionProblem> plans;
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
  bool run(const AttentionProblem& problem, const Tensors& tensors) {
    return plans.run(problem, [&](const CudnnPlan& plan) { return run(plan, tensors); });
  }

  // A backward in equal parts. Sets memory.delta. Returns false if a part would be less than a group.
  bool run_in_parts(const AttentionProblem& whole, const AttentionPart& part, float scale, Operands memory);
  // Warns once, and returns false.
  bool refuse_parts(std::int64_t tokens);

  // The trial of [Note: intermediates of attention].
  bool repeats(const AttentionProblem& p, const CudnnPlan& plan) {
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
  const AttentionProblem p = attention_problem(args, false, repeated != nullptr);
  if (!is_readable(p, {args.qkv.data, args.out.data, args.lse.data})) return false;
  if (state_->plans.plan_for(p) == nullptr) return false;
  Scalars scalars{.scale = args.scale};
  const auto [k, v] = keys_and_values(p, args.qkv.data, repeated != nullptr ? repeated->rows : nullptr);
  const Operands memory{.q = args.qkv.data, .k = k, .v = v, .out = args.out.data, .lse = args.lse.data};
  return state_->run(p, tensors_of(p, {}, memory, scalars));
}

bool AttentionLibrary::run_fwd(const CrossAttentionFwdArgs& args) {
  const AttentionProblem p = cross_attention_problem(args, false);
  if (!is_readable(p, {args.q.data, args.k.data, args.v.data, args.out.data, args.lse.data})) return false;
  if (state_->plans.plan_for(p) == nullptr) return false;
  Scalars scalars{.scale = args.scale};
  const Operands memory{
      .q = args.q.data, .k = args.k.data, .v = args.v.data, .out = args.out.data, .lse = args.lse.data};
  return state_->run(p, tensors_of(p, {}, memory, scalars));
}

bool AttentionLibrary::State::run_in_parts(const AttentionProblem& whole, const AttentionPart& part,
                                           float scale, Operands memory) {
  AttentionProblem p = whole;
  p.samples = part.samples;
  p.heads = part.heads;
  p.kv_heads = part.heads * whole.kv_heads / whole.heads;
  if (p.kv_heads * whole.heads != p.heads * whole.kv_heads) return false;
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
  const AttentionProblem p = attention_problem(args, true, repeated != nullptr);
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
  const AttentionProblem p = cross_attention_problem(args, true);
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
