#include "parallel/executor.h"

#include <algorithm>
#include <utility>

#include "runtime/base/error.h"

namespace trireme {
namespace {

// Parameters as one unit sees them.
class UnitParameters final : public ParameterResolver {
 public:
  UnitParameters(ParamStore& params, const std::vector<ParamUse>& uses, GradAccumulator* gradients)
      : params_(params), uses_(uses), gradients_(gradients) {}

  Tensor value(ParamRef ref) override { return params_.value(uses_.at(static_cast<std::size_t>(ref.index))); }
  float center(ParamRef ref) const override {
    return params_.center(uses_.at(static_cast<std::size_t>(ref.index)));
  }
  GradientTarget gradient(ParamRef ref) override {
    if (gradients_ == nullptr) return {};
    return gradients_->target(uses_.at(static_cast<std::size_t>(ref.index)));
  }

 private:
  ParamStore& params_;
  const std::vector<ParamUse>& uses_;
  GradAccumulator* gradients_;
};

}  // namespace

struct Executor::MicroBatchUnit {
  Tape tape;
  std::vector<ValueId> inputs, outputs;
};

struct Executor::MicroBatch {
  Batch batch;
  Activations activations;                               // output of the unit that ran last
  std::map<int, Activations> kept_inputs;                // by unit, for recompute
  std::map<int, std::unique_ptr<MicroBatchUnit>> units;  // recorded forwards, by unit
  std::vector<Tensor> gradients;                         // of the input of the unit whose backward ran last
};

struct Executor::Run {
  const ExecutionInput& input;
  TrainingState training;
  std::vector<MicroBatch> micro_batches;
  const LeafObserver* observer = nullptr;  // of a replay
  Tensor local_losses;                     // [micro-batches of this rank]
  Tensor all_losses;                       // [micro-batches of all ranks]
};

Executor::Executor(Context ctx, const BlockList& blocks, const ModelLayout& layout, ParamStore& params,
                   StatisticStore& statistics, std::shared_ptr<Communicator> comm)
    : ctx_(std::move(ctx)),
      blocks_(blocks),
      layout_(layout),
      params_(params),
      statistics_(statistics),
      comm_(std::move(comm)) {}

Executor::~Executor() = default;

Tensor Executor::run(const RankPlan& plan, const ExecutionInput& input, TrainingState training) {
  Run run{.input = input, .training = std::move(training)};
  run.micro_batches.resize(static_cast<std::size_t>(input.batch.per_rank()));
  run.local_losses = ctx_.zeros({input.batch.per_rank()});
  for (std::size_t i = 0; i < plan.actions.size(); ++i) {
    play_named(run, plan.actions[i], i);
    if (observer_) observer_(i);
  }
  return run.all_losses;
}

void Executor::replay(const RankPlan& plan, const ExecutionInput& input, GradAccumulator& gradients,
                      const LeafObserver& observer) {
  Run run{.input = input, .training = {.gradients = &gradients}, .observer = &observer};
  run.micro_batches.resize(static_cast<std::size_t>(input.batch.per_rank()));
  run.local_losses = ctx_.zeros({input.batch.per_rank()});
  for (std::size_t i = 0; i < plan.actions.size(); ++i) {
    const ActionKind kind = plan.actions[i].kind;
    const bool sums = kind == ActionKind::kReduceGrad || kind == ActionKind::kReduceLoss ||
                      kind == ActionKind::kGradNorm || kind == ActionKind::kOptimStep;
    if (!sums) play_named(run, plan.actions[i], i);
  }
}

void Executor::play_named(Run& run, const Action& action, std::size_t position) {
  try {
    play(run, action);
  } catch (const Error& e) {
    const std::string block =
        action.unit >= 0
            ? fmt::format(" of block '{}'", blocks_[static_cast<std::size_t>(action.unit)]->name())
            : "";
    throw Error(e.code(),
                fmt::format("rank {}, action {} ({}){}: {}", comm_->rank(), position, to_string(action),
                            block, e.what()),
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
    case ActionKind::kRecompute:
      return recompute(run, action);
    case ActionKind::kGather:
    case ActionKind::kRelease:
      return change_residency(action);
    case ActionKind::kReduceGrad:
      return run.training.gradients->start_reduce(ctx_, action.unit, action.micro_batch);
    case ActionKind::kReduceLoss:
      return reduce_loss(run);
    case ActionKind::kGradNorm:
      return grad_norm(run);
    case ActionKind::kOptimStep:
      return optim_step(run);
    default:
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("the executor does not play {} yet", name(action.kind)));
  }
}

void Executor::change_residency(const Action& action) {
  for (const int group : layout_.unit_groups[static_cast<std::size_t>(action.unit)]) {
    action.kind == ActionKind::kGather ? params_.gather(group) : params_.release(group);
  }
}

// Runs a unit's block; with `record`, what its backward needs goes there.
Activations Executor::run_unit(Run& run, const Action& action, MicroBatchUnit* record, Activations input) {
  const MicroBatch& mb = run.micro_batches[static_cast<std::size_t>(action.micro_batch)];
  UnitParameters parameters(params_, layout_.uses[static_cast<std::size_t>(action.unit)], nullptr);
  UnitStatistics statistics(statistics_, action.unit, run.input.training ? action.micro_batch : -1);
  Context ctx = ctx_;
  ctx.parameters = &parameters;
  ctx.statistics = &statistics;
  ctx.training = run.input.training;
  ctx.gradient_scale = run.input.gradient_scale;
  ctx.tape = record != nullptr ? &record->tape : nullptr;
  ctx.rng = run.input.rng;
  ctx.rng.block = static_cast<std::uint16_t>(action.unit);
  ctx.rng.op = 0;
  const BatchLayout& layout = run.input.batch;
  ctx.first_sample = layout.first_sample(layout.global_micro_batch(comm_->rank(), action.micro_batch));
  if (record != nullptr) {
    for (Tensor& tensor : input) {
      tensor = record->tape.watch(tensor);
      record->inputs.push_back(tensor.id());
    }
  }
  Activations output = blocks_[static_cast<std::size_t>(action.unit)]->forward(ctx, input, mb.batch);
  draws_random_ = draws_random_ || ctx.rng.op != 0;
  for (Tensor& tensor : output) {
    if (record != nullptr) record->outputs.push_back(tensor.id());
    tensor = tensor.detach();
  }
  return output;
}

void Executor::read_batch(Run& run, int micro_batch) {
  MicroBatch& mb = run.micro_batches[static_cast<std::size_t>(micro_batch)];
  mb.batch.loss_scale = 1.0f / static_cast<float>(run.input.num_targets);
  if (run.input.uploaded != nullptr) {
    const Batch& uploaded = (*run.input.uploaded)[static_cast<std::size_t>(micro_batch)];
    mb.batch.inputs = uploaded.inputs;
    mb.batch.targets = uploaded.targets;
    mb.batch.target_weights = uploaded.target_weights;
    return;
  }
  const BatchLayout& layout = run.input.batch;
  const std::int64_t first = layout.first_sample(layout.global_micro_batch(comm_->rank(), micro_batch));
  const HostBatch host = run.input.source(first, std::min(layout.micro_batch, layout.global_batch - first));
  mb.batch.inputs =
      ctx_.from_host(host.inputs.data(), host.input_shape, host.input_dtype, MemoryCategory::kBatch);
  mb.batch.targets =
      ctx_.from_host(host.targets.data(), host.target_shape, DType::kInt32, MemoryCategory::kBatch);
  if (host.target_weights.empty()) return;
  mb.batch.target_weights =
      ctx_.from_host(host.target_weights.data(), host.target_shape, DType::kFloat32, MemoryCategory::kBatch);
}

// The last block again, without targets: most of what a model computes is in front of it.
void Executor::observe_logits(Run& run, const Action& action, Activations input) {
  Batch& batch = run.micro_batches[static_cast<std::size_t>(action.micro_batch)].batch;
  const Tensor targets = std::exchange(batch.targets, Tensor());
  const Activations logits = run_unit(run, action, nullptr, std::move(input));
  batch.targets = targets;
  run.input.observe_logits(logits.at(0), targets);
}

void Executor::forward(Run& run, const Action& action) {
  const bool is_last = action.unit == static_cast<int>(blocks_.size()) - 1;
  MicroBatch& mb = run.micro_batches[static_cast<std::size_t>(action.micro_batch)];
  if (action.unit == 0) read_batch(run, action.micro_batch);
  std::unique_ptr<MicroBatchUnit> record;
  if (run.input.training && action.keep == Keep::kTape) record = std::make_unique<MicroBatchUnit>();
  Activations input = std::move(mb.activations);
  if (run.input.training && action.keep == Keep::kInput) mb.kept_inputs[action.unit] = input;
  if (is_last && run.input.observe_logits) observe_logits(run, action, input);
  mb.activations = run_unit(run, action, record.get(), std::move(input));
  if (is_last) {
    TRIREME_CHECK(mb.activations.size() == 1 && mb.activations[0].num_elems() == 1,
                  "the last block must return one scalar, the loss");
    ctx_.backend->copy(ctx_.exec, run.local_losses.slice(action.micro_batch, {}),
                       mb.activations[0].reshape({}));
    mb.activations.clear();
  }
  if (record != nullptr) mb.units[action.unit] = std::move(record);
  if (!run.input.training && is_last) mb = MicroBatch{};
}

void Executor::recompute(Run& run, const Action& action) {
  MicroBatch& mb = run.micro_batches[static_cast<std::size_t>(action.micro_batch)];
  Activations input = std::move(mb.activations);  // of the unit before, recomputed just now
  if (const auto kept = mb.kept_inputs.find(action.unit); kept != mb.kept_inputs.end()) {
    input = std::move(kept->second);
    mb.kept_inputs.erase(kept);
  }
  auto record = std::make_unique<MicroBatchUnit>();
  mb.activations = run_unit(run, action, record.get(), std::move(input));
  mb.units[action.unit] = std::move(record);
}

void Executor::backward(Run& run, const Action& action) {
  MicroBatch& mb = run.micro_batches[static_cast<std::size_t>(action.micro_batch)];
  const std::unique_ptr<MicroBatchUnit> unit = std::move(mb.units.at(action.unit));
  mb.units.erase(action.unit);
  mb.activations.clear();  // a recomputed output that nobody but this backward was for
  GradAccumulator& gradients = *run.training.gradients;
  gradients.begin(ctx_, action.unit, action.micro_batch);

  UnitParameters parameters(params_, layout_.uses[static_cast<std::size_t>(action.unit)], &gradients);
  Context ctx = ctx_;
  ctx.parameters = &parameters;
  ctx.training = true;
  std::vector<Tape::Seed> seeds;
  for (std::size_t i = 0; i < unit->outputs.size(); ++i) {
    if (unit->outputs[i] == kNoValue) continue;
    const bool is_loss = action.unit == static_cast<int>(blocks_.size()) - 1;
    Tensor gradient = is_loss ? Tensor() : std::move(mb.gradients.at(i));
    if (is_loss || gradient.defined()) seeds.push_back({unit->outputs[i], std::move(gradient)});
  }
  mb.gradients.clear();
  mb.gradients = unit->tape.backward(ctx, std::move(seeds), unit->inputs);
  if (run.observer != nullptr) {
    (*run.observer)(action.unit, action.micro_batch, gradients.take_leaves(ctx_, action.unit));
  } else {
    gradients.end(ctx_, action.unit, action.micro_batch);
  }
  if (action.unit == 0) mb = MicroBatch{};
}

Tensor Executor::infer(const HostBatch& batch) {
  Batch on_device;
  on_device.inputs =
      ctx_.from_host(batch.inputs.data(), batch.input_shape, batch.input_dtype, MemoryCategory::kBatch);
  Activations activations;
  for (std::size_t u = 0; u < blocks_.size(); ++u) {
    const auto unit = static_cast<int>(u);
    change_residency({.kind = ActionKind::kGather, .unit = unit});
    UnitParameters parameters(params_, layout_.uses[u], nullptr);
    UnitStatistics statistics(statistics_, unit, -1);
    Context ctx = ctx_;
    ctx.parameters = &parameters;
    ctx.statistics = &statistics;
    activations = blocks_[u]->forward(ctx, activations, on_device);
    change_residency({.kind = ActionKind::kRelease, .unit = unit});
  }
  TRIREME_CHECK(activations.size() == 1, "the last block must return one tensor, got {}", activations.size());
  return activations[0];
}

void Executor::reduce_loss(Run& run) {
  if (comm_->size() == 1) {
    run.all_losses = run.local_losses;
    return;
  }
  run.all_losses = ctx_.empty({run.local_losses.num_elems() * comm_->size()});
  comm_->all_gather(run.local_losses, run.all_losses).wait();
}

void Executor::grad_norm(Run& run) {
  TrainingState& training = run.training;
  training.gradients->finish(ctx_);
  std::vector<Work> gathers;
  for (std::size_t g = 0; g < layout_.groups.size(); ++g) {
    const Tensor gradient = training.gradients->gradient(static_cast<int>(g));
    const Tensor& all = training.norm_partials[g];
    const std::int64_t blocks = gradient.num_elems() / kNormBlock;
    const Tensor own = all.slice(training.sharding.rank * blocks, {blocks});
    ctx_.backend->squared_norm_blocks(ctx_.exec, {.x = gradient, .partials = own});
    if (training.sharding.ranks > 1) gathers.push_back(comm_->all_gather(own, all));
  }
  for (Work& gather : gathers) gather.wait();
  ctx_.backend->clip_coefficient(ctx_.exec, {.partials = training.all_norm_partials,
                                             .norm = training.grad_norm,
                                             .clip = training.scalars.clip,
                                             .max_norm = training.max_norm,
                                             .gradient_scale = training.scaler->scale()});
  training.scaler->update(ctx_, training.grad_norm);
  if (training.after_grad_norm) training.after_grad_norm();
}

void Executor::optim_step(Run& run) {
  params_.update(*run.training.optimizer, run.training.scalars,
                 [&](int group) { return run.training.gradients->gradient(group); });
  run.training.gradients->clear();
  statistics_.move(run.training.scalars.skip);
}

}  // namespace trireme
