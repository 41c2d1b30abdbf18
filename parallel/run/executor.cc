#include "parallel/run/executor.h"

#include "parallel/layout/stage_groups.h"
#include "parallel/run/executor_run.h"
#include "runtime/base/error.h"

namespace trireme {

Executor::Executor(Context ctx, const Parts& parts)
    : ctx_(std::move(ctx)),
      blocks_(parts.blocks),
      layout_(parts.layout),
      params_(parts.params),
      statistics_(parts.statistics),
      groups_(parts.groups),
      stages_(parts.stages),
      shapes_(parts.shapes),
      watchdog_(parts.watchdog),
      ties_(ties_between_stages(layout_, stages_)),
      coord_(groups_.coord()) {}

Executor::~Executor() = default;

Tensor Executor::run(const RankPlan& plan, const ExecutionInput& input, TrainingState training) {
  Run run{.input = input, .training = std::move(training)};
  run.send_window = plan.send_window;
  run.micro_batches.resize(static_cast<std::size_t>(input.batch.per_rank()));
  run.local_losses = ctx_.zeros({input.batch.per_rank()});
  for (std::size_t i = 0; i < plan.actions.size(); ++i) {
    play_named(run, plan.actions[i], i);
    if (observer_) observer_(i);
  }
  run.finish_sends(watchdog_);
  return run.all_losses;
}

void Executor::replay(const RankPlan& plan, const ExecutionInput& input, GradAccumulator& gradients,
                      const LeafObserver& observer) {
  Run run{.input = input, .training = {.gradients = &gradients}, .observer = &observer};
  run.send_window = plan.send_window;
  run.micro_batches.resize(static_cast<std::size_t>(input.batch.per_rank()));
  run.local_losses = ctx_.zeros({input.batch.per_rank()});
  for (std::size_t i = 0; i < plan.actions.size(); ++i) {
    if (traits(plan.actions[i].kind).replayed) play_named(run, plan.actions[i], i);
  }
  run.finish_sends(watchdog_);
}

std::string Executor::describe(const Run& run, const Action& action, std::size_t position) const {
  const std::string play =
      run.input.training ? fmt::format("step {}", run.input.rng.step + 1) : std::string("evaluation");
  const std::string block =
      action.unit >= 0 ? fmt::format(" of block '{}'", blocks_[static_cast<std::size_t>(action.unit)]->name())
                       : "";
  return fmt::format("{}, action {} ({}){}", play, position, to_string(action), block);
}

void Executor::play_named(Run& run, const Action& action, std::size_t position) {
  const Watchdog::Scope watch(watchdog_, watchdog_ ? describe(run, action, position) : std::string());
  try {
    play(run, action);
  } catch (const Error& e) {
    throw Error(
        e.code(),
        fmt::format("rank {}, {}: {}", groups_.world->rank(), describe(run, action, position), e.what()),
        e.where());
  }
}

void Executor::play(Run& run, const Action& action) {
  const MemoryHolderScope holder(*ctx_.allocator, action.unit >= 0
                                                      ? blocks_[static_cast<std::size_t>(action.unit)]->name()
                                                      : name(action.kind));
  switch (action.kind) {
    case ActionKind::kForward:
      return forward(run, action);
    case ActionKind::kBackward:
      return backward(run, action);
    case ActionKind::kBackwardInput:
      return backward_input(run, action);
    case ActionKind::kBackwardWeight:
      return backward_weight(run, action);
    case ActionKind::kRecompute:
      return recompute(run, action);
    case ActionKind::kGather:
    case ActionKind::kRelease:
      return change_residency(action);
    case ActionKind::kReduceGrad:
      return run.training.gradients->start_reduce(ctx_, action.unit, action.micro_batch);
    case ActionKind::kGatherGrad:
      return run.training.gradients->start_gather(ctx_, action.unit);
    case ActionKind::kReduceLoss:
      return reduce_loss(run);
    case ActionKind::kGradNorm:
      return grad_norm(run);
    case ActionKind::kGatherNorms:
      return gather_norms(run);
    case ActionKind::kBroadcastNorms:
      return broadcast_norms(run);
    case ActionKind::kClipGrad:
      return clip_grad(run);
    case ActionKind::kOptimStep:
      return optim_step(run, action);
    case ActionKind::kGatherUpdated:
      return gather_updated(action);
    case ActionKind::kReduceStatistics:
      return statistics_.reduce(run.training.scalars.skip);
    case ActionKind::kSendActivation:
    case ActionKind::kSendGradient:
      return send(run, action);
    case ActionKind::kRecvActivation:
    case ActionKind::kRecvGradient:
      return receive(run, action);
    case ActionKind::kSendTiedGradient:
    case ActionKind::kRecvTiedGradient:
    case ActionKind::kSendTiedParameters:
    case ActionKind::kRecvTiedParameters:
      return exchange_tied(run, action);
  }
}

void Executor::change_residency(const Action& action) {
  for (const int group : layout_.unit_groups[static_cast<std::size_t>(action.unit)]) {
    action.kind == ActionKind::kGather ? params_.gather(group) : params_.release(group);
  }
}

void Executor::reduce_loss(Run& run) {
  run.finish_sends(watchdog_);
  const std::int64_t mine = run.local_losses.num_elems();
  if (groups_.world->size() == 1) {
    run.all_losses = run.local_losses;
    return;
  }
  const Tensor all = ctx_.empty({mine * groups_.world->size()});
  groups_.world->all_gather(run.local_losses, all).wait();
  const Mesh& mesh = groups_.mesh;
  run.all_losses = all.slice(mine * mesh.rank({{Axis::kPipeline, mesh.size(Axis::kPipeline) - 1}}),
                             {mine * mesh.size(Axis::kData)});
}

// This rank's part of the partial sums of group `g`: all of them where gradients are not sharded.
Tensor Executor::own_norms(const TrainingState& training, std::size_t g) const {
  const Tensor& all = training.norm_partials[g];
  const std::int64_t blocks = all.num_elems() / training.sharding.ranks;
  return all.slice(training.sharding.rank * blocks, {blocks});
}

void Executor::grad_norm(Run& run) {
  TrainingState& training = run.training;
  training.gradients->finish(ctx_);
  for (std::size_t g = 0; g < layout_.groups.size(); ++g) {
    if (!params_.owns(static_cast<int>(g))) continue;
    const Tensor gradient = training.gradients->gradient(static_cast<int>(g));
    ctx_.run(SquaredNormBlocksArgs{.x = gradient, .partials = own_norms(training, g)});
  }
}

void Executor::gather_norms(Run& run) {
  std::vector<Work> gathers;
  for (std::size_t g = 0; g < layout_.groups.size(); ++g) {
    if (!params_.owns(static_cast<int>(g))) continue;
    gathers.push_back(
        groups_.along(Axis::kData)->all_gather(own_norms(run.training, g), run.training.norm_partials[g]));
  }
  for (Work& gather : gathers) gather.wait();
}

void Executor::clip_grad(Run& run) {
  TrainingState& training = run.training;
  ctx_.run(ClipCoefficientArgs{.partials = training.all_norm_partials,
                               .norm = training.grad_norm,
                               .clip = training.scalars.clip,
                               .max_norm = training.max_norm,
                               .gradient_scale = training.scaler->scale()});
  training.scaler->update(ctx_, training.grad_norm);
  if (training.after_grad_norm) training.after_grad_norm();
}

// Every stage has filled in its own groups; those of neighbouring units lie beside each other.
void Executor::broadcast_norms(Run& run) {
  const auto owner = [&](std::size_t g) {
    return stages_.stage_of(owner_unit(layout_, static_cast<int>(g)));
  };
  const std::vector<Tensor>& partials = run.training.norm_partials;
  std::vector<Work> works;
  std::int64_t first = 0;
  for (std::size_t g = 0; g < partials.size();) {
    const int stage = owner(g);
    std::int64_t count = 0;
    for (; g < partials.size() && owner(g) == stage; ++g) count += partials[g].num_elems();
    works.push_back(groups_.along(Axis::kPipeline)
                        ->broadcast(run.training.all_norm_partials.slice(first, {count}), stage));
    first += count;
  }
  for (Work& work : works) work.wait();
}

void Executor::optim_step(Run& run, const Action& action) {
  for (const int group : layout_.unit_groups[static_cast<std::size_t>(action.unit)]) {
    if (owner_unit(layout_, group) != action.unit) continue;
    params_.update(group, *run.training.optimizer, run.training.scalars,
                   run.training.gradients->gradient(group));
    run.training.gradients->drop(group);
  }
}

void Executor::gather_updated(const Action& action) {
  for (const int group : layout_.unit_groups[static_cast<std::size_t>(action.unit)]) {
    if (owner_unit(layout_, group) == action.unit && params_.holds(group)) params_.gather_updated(group);
  }
}

}  // namespace trireme
