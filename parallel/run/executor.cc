#include "parallel/run/executor.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "parallel/layout/sample_batch.h"
#include "parallel/run/boundary_messages.h"
#include "parallel/run/stage_compute.h"
#include "runtime/base/error.h"
#include "runtime/key_value_cache.h"

namespace trireme {

namespace {

// DivideLossesArgs, in host memory.
std::vector<float> divided_losses(const std::vector<float>& counted, std::int64_t ranks,
                                  float inv_num_targets) {
  const std::size_t count = counted.size() / static_cast<std::size_t>(2 * ranks);
  const auto at = [&](std::size_t i, std::size_t number) {
    return counted[(2 * (i / count) + number) * count + i % count];
  };
  std::vector<float> losses(counted.size() / 2);
  double sum = 0.0;
  for (std::size_t i = 0; i < losses.size(); ++i) sum += static_cast<double>(at(i, 1));
  const auto divisor = static_cast<float>(std::max(1.0, sum) * static_cast<double>(inv_num_targets));
  for (std::size_t i = 0; i < losses.size(); ++i) losses[i] = at(i, 0) / divisor;
  return losses;
}

}  // namespace

struct Executor::Run {
  const ExecutionInput& input;
  OptimizerStep* optimizer_step;  // null: a replay
  StageCompute compute;
  BoundaryMessages messages;
  // Losses of all ranks, by data rank and local micro-batch.
  Tensor losses = {};                        // of a training step
  Tensor divisor = {};                       // of its gradients: see [Note: counted losses]
  std::vector<float> evaluated_losses = {};  // of an evaluation

  Run(const RankParts& parts, const ExecutionInput& in, OptimizerStep* step, int send_window)
      : input(in), optimizer_step(step), compute(parts, in), messages(parts, in, send_window) {}
};

Tensor Executor::run(const RankPlan& plan, const ExecutionInput& input, OptimizerStep* optimizer_step) {
  std::optional<MemoryKeepScope> keep;  // see [Note: dry runs]
  if (parts_.groups.spans(Axis::kPipeline)) keep.emplace(*parts_.ctx.allocator);
  Run run(parts_, input, optimizer_step, plan.send_window);
  play_all(run, plan);
  return run.losses;
}

std::vector<float> Executor::evaluate(const RankPlan& plan, const ExecutionInput& input,
                                      OptimizerStep* optimizer_step) {
  std::optional<MemoryKeepScope> keep;
  if (parts_.groups.spans(Axis::kPipeline)) keep.emplace(*parts_.ctx.allocator);
  Run run(parts_, input, optimizer_step, plan.send_window);
  play_all(run, plan);
  return std::move(run.evaluated_losses);
}

void Executor::play_all(Run& run, const RankPlan& plan) {
  const ExecutionInput& input = run.input;
  const bool is_replay = input.observe_leaves != nullptr;
  PhaseClock* const clock = is_replay || !input.training ? nullptr : clock_;
  for (std::size_t i = 0; i < plan.actions.size(); ++i) {
    if (is_replay && !traits(plan.actions[i].kind).replayed) continue;
    if (clock != nullptr) clock->enter(traits(plan.actions[i].kind).spent);
    play_named(run, plan.actions[i], i);
    if (observer_ && !is_replay) observer_(i);
  }
  if (clock != nullptr) clock->enter(TimeSpent::kExchange);
  run.messages.finish_sends();
  if (clock != nullptr) clock->finish();
}

// "Forward blocks.3 mb 2"
std::string Executor::range_name(const Action& action) const {
  std::string text(name(action.kind));
  if (action.unit >= 0) text += " " + parts_.blocks[static_cast<std::size_t>(action.unit)]->name();
  if (action.micro_batch >= 0) text += fmt::format(" mb {}", action.micro_batch);
  return text;
}

std::string Executor::describe(const ExecutionInput& input, const Action& action,
                               std::size_t position) const {
  const std::string play = input.training ? fmt::format("step {}", input.rng.step + 1) : "evaluation";
  const std::string block =
      action.unit >= 0
          ? fmt::format(" of block '{}'", parts_.blocks[static_cast<std::size_t>(action.unit)]->name())
          : "";
  return fmt::format("{}, action {} ({}){}", play, position, to_string(action), block);
}

void Executor::play_named(Run& run, const Action& action, std::size_t position) {
  const Watchdog::Scope watch(parts_.watchdog,
                              parts_.watchdog ? describe(run.input, action, position) : std::string());
  const ProfiledRange range(marks_, [&] { return range_name(action); });
  try {
    play(run, action);
  } catch (const Error& e) {
    ErrorFacts facts = e.facts();
    facts.rank = parts_.groups.world->rank();
    facts.action = describe(run.input, action, position);
    if (action.unit >= 0) facts.block = parts_.blocks[static_cast<std::size_t>(action.unit)]->name();
    facts.micro_batch = action.micro_batch;
    const std::string message = fmt::format("rank {}, {}: {}", facts.rank, facts.action, e.what());
    throw e.saying(message).about(std::move(facts));
  }
}

void Executor::play(Run& run, const Action& action) {
  const MemoryHolderScope holder(
      *parts_.ctx.allocator,
      action.unit >= 0 ? parts_.blocks[static_cast<std::size_t>(action.unit)]->name() : name(action.kind));
  auto& [input, optimizer_step, compute, messages, losses, divisor, evaluated_losses] = run;
  if (parts_.tensor != nullptr && !is_tensor_call(action.kind)) parts_.tensor->check_settled();
  switch (action.kind) {
    case ActionKind::kForward:
      compute.read_batch(action);
      return compute.forward(action, messages.take(action));
    case ActionKind::kRecompute:
      return compute.recompute(action);
    case ActionKind::kBackward:
      return compute.backward(action, messages.take(action));
    case ActionKind::kBackwardInput:
      return compute.backward_input(action, messages.take(action));
    case ActionKind::kBackwardWeight:
      return compute.backward_weight(action);
    case ActionKind::kGather:
    case ActionKind::kGatherInHost:
    case ActionKind::kReduceGradInHost:
    case ActionKind::kReduceGrad:
    case ActionKind::kGatherGrad:
    case ActionKind::kGatherGradInHost:
      return exchange_over_data(action);
    case ActionKind::kRelease:
      compute.drop_codes(action.unit);
      return for_groups(action.unit, &ParamStore::release);
    case ActionKind::kSumChunks:
    case ActionKind::kReduceScatterSequence:
    case ActionKind::kGatherSequence:
      return parts_.tensor->settle(action.kind);
    case ActionKind::kSendActivation:
    case ActionKind::kSendGradient:
      return messages.send(action, compute.take_sent(action));
    case ActionKind::kRecvActivation:
    case ActionKind::kRecvGradient:
      return messages.receive(action);
    case ActionKind::kSendTiedGradient:
    case ActionKind::kRecvTiedGradient:
    case ActionKind::kSendTiedParameters:
    case ActionKind::kRecvTiedParameters:
      return tied_.exchange(action);
    case ActionKind::kReduceLoss:
      messages.finish_sends();
      return reduce_loss(run);
    case ActionKind::kGradNorm:
      return optimizer_step->compute_norms();
    case ActionKind::kGatherNorms:
      return optimizer_step->gather_norms();
    case ActionKind::kGatherChunkNorms:
      return optimizer_step->gather_chunk_norms();
    case ActionKind::kBroadcastNorms:
      return optimizer_step->broadcast_norms();
    case ActionKind::kClipGrad:
      return optimizer_step->clip(losses, divisor);
    case ActionKind::kOptimStep:
      return optimizer_step->update(action.unit);
    case ActionKind::kGatherUpdated:
      return optimizer_step->gather_updated(action.unit);
    case ActionKind::kGatherUpdatedInHost:
      return optimizer_step->gather_updated_in_host(action.unit);
    case ActionKind::kSwapAverages:
      return optimizer_step->swap_averages(action.unit);
    case ActionKind::kReduceStatistics:
      return parts_.statistics.reduce(optimizer_step->skip());
  }
}

// Exchanges of parameters and gradients, before the norm.
void Executor::exchange_over_data(const Action& action) {
  switch (action.kind) {
    case ActionKind::kGather:
      return for_groups(action.unit, &ParamStore::gather);
    case ActionKind::kGatherInHost:
      return for_groups(action.unit, &ParamStore::gather_in_host);
    case ActionKind::kReduceGradInHost:
      return parts_.gradients.start_reduce_in_host(parts_.ctx, action.unit, action.micro_batch);
    case ActionKind::kReduceGrad:
      return parts_.gradients.start_reduce(parts_.ctx, action.unit, action.micro_batch);
    case ActionKind::kGatherGrad:
      return parts_.gradients.start_gather(parts_.ctx, action.unit);
    default:
      return parts_.gradients.start_gather_in_host(parts_.ctx, action.unit);
  }
}

void Executor::for_groups(int unit, void (ParamStore::*change)(int group)) {
  for (const int group : parts_.layout.unit_groups[static_cast<std::size_t>(unit)]) {
    (parts_.params.*change)(group);
  }
}

void Executor::reduce_loss(Run& run) const {
  const bool counts = counts_loss_terms(parts_.blocks);
  const std::int64_t ranks = parts_.groups.mesh.size(Axis::kData);
  if (!run.input.training) {
    run.evaluated_losses = all_losses(run.compute.evaluated_losses());
    if (counts)
      run.evaluated_losses = divided_losses(run.evaluated_losses, ranks, run.input.inv_num_targets());
    return;
  }
  run.losses = all_losses(run.compute.losses());
  const std::int64_t each = run.losses.num_elems() / (counts ? 2 : 1);
  if (!counts) {
    run.losses = run.losses.reshape({each});
    return;
  }
  const Tensor counted = run.losses.reshape({ranks, 2, each / ranks});
  run.losses = parts_.ctx.empty({each});
  run.divisor = parts_.ctx.empty({});
  parts_.ctx.run(DivideLossesArgs{.counted = counted,
                                  .losses = run.losses,
                                  .divisor = run.divisor,
                                  .inv_num_targets = run.input.inv_num_targets()});
}

Tensor Executor::all_losses(const Tensor& mine) const {
  const Mesh& mesh = parts_.groups.mesh;
  if (mesh.num_ranks() == 1) return mine;
  const std::int64_t count = mine.num_elems();
  const Tensor all = parts_.ctx.empty({count * mesh.num_ranks()});
  parts_.groups.world->all_gather(mine, all).wait();
  const auto first_of = [&](int data) {  // of the last stage; all tensor ranks have the same
    return count * mesh.rank({{Axis::kPipeline, mesh.size(Axis::kPipeline) - 1}, {Axis::kData, data}});
  };
  const int data_ranks = mesh.size(Axis::kData);
  if (mesh.size(Axis::kTensor) == 1) return all.slice(first_of(0), {count * data_ranks});
  const Tensor losses = parts_.ctx.empty({count * data_ranks});
  for (int data = 0; data < data_ranks; ++data) {
    parts_.ctx.backend->copy(parts_.ctx.exec, losses.slice(count * data, {count}),
                             all.slice(first_of(data), {count}));
  }
  return losses;
}

std::vector<float> Executor::all_losses(const std::vector<float>& mine) const {
  const Mesh& mesh = parts_.groups.mesh;
  if (mesh.num_ranks() == 1) return mine;
  const std::vector<float> all = parts_.groups.world->all_gather_values(std::span<const float>(mine));
  std::vector<float> losses;
  for (int data = 0; data < mesh.size(Axis::kData); ++data) {
    const int rank = mesh.rank({{Axis::kPipeline, mesh.size(Axis::kPipeline) - 1}, {Axis::kData, data}});
    const auto first = all.begin() + std::ssize(mine) * rank;
    losses.insert(losses.end(), first, first + std::ssize(mine));
  }
  return losses;
}

Tensor Executor::infer(const HostBatch& batch, KeyValueCache* cache) {
  if (parts_.stages.pipeline > 1 || parts_.tensor != nullptr) {
    throw Error(
        ErrorCode::kUnsupported,
        "a model that is cut into stages or shared by tensor ranks does not infer: load its checkpoint "
        "into an engine of one rank");
  }
  Batch on_device;
  put_inputs(batch, on_device, [&](Tensor& tensor, const void* data, const Shape& shape, DType dtype) {
    tensor = parts_.ctx.from_host(data, shape, dtype, MemoryCategory::kBatch);
  });
  Activations activations;
  for (std::size_t u = 0; u < parts_.blocks.size(); ++u) {
    const auto unit = static_cast<int>(u);
    if (parts_.params.shards_parameters()) {
      for_groups(unit, &ParamStore::gather);
      for_groups(unit, &ParamStore::gather_in_host);
    }
    UnitParameters parameters(parts_, unit, nullptr);
    UnitStatistics statistics(parts_.statistics, unit, -1);
    Context ctx = parts_.ctx;
    ctx.parameters = &parameters;
    ctx.statistics = &statistics;
    ctx.cache = cache;
    activations = parts_.blocks[u]->forward(ctx, activations, on_device);
    if (parts_.params.shards_parameters()) for_groups(unit, &ParamStore::release);
  }
  if (cache != nullptr) cache->finish_forward(batch.input_shape.dim(1));
  TRIREME_CHECK(activations.size() == 1, "the last block must return one tensor, got {}", activations.size());
  return activations[0];
}

}  // namespace trireme
