// How the executor runs blocks: forward, again, and backward.
#include <algorithm>
#include <utility>

#include "parallel/run/executor_run.h"
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
  ctx.first_sample = layout.first_sample(layout.global_micro_batch(coord_[Axis::kData], action.micro_batch));
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
  mb.batch.inv_num_targets = 1.0f / static_cast<float>(run.input.num_targets);
  if (run.input.uploaded != nullptr) {
    const Batch& uploaded = (*run.input.uploaded)[static_cast<std::size_t>(micro_batch)];
    mb.batch.inputs = uploaded.inputs;
    mb.batch.targets = uploaded.targets;
    mb.batch.target_weights = uploaded.target_weights;
    return;
  }
  const BatchLayout& layout = run.input.batch;
  const std::int64_t first = layout.first_sample(layout.global_micro_batch(coord_[Axis::kData], micro_batch));
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
  Batch& batch = run.of(action).batch;
  const Tensor targets = std::exchange(batch.targets, Tensor());
  const Activations logits = run_unit(run, action, nullptr, std::move(input));
  batch.targets = targets;
  run.input.observe_logits(logits.at(0), targets);
}

void Executor::forward(Run& run, const Action& action) {
  const int last_unit = static_cast<int>(blocks_.size()) - 1;
  MicroBatch& mb = run.of(action);
  // Of two stages only the first and the last look at the batch; in one, unit 0 has read it.
  const bool reads = action.unit == 0 || (action.unit == last_unit && stages_.pipeline > 1);
  if (reads) read_batch(run, action.micro_batch);
  std::unique_ptr<MicroBatchUnit> record;
  if (run.input.training && action.keep == Keep::kTape) record = std::make_unique<MicroBatchUnit>();
  Activations input;
  if (const auto received = run.inputs.extract({action.unit, action.micro_batch})) {
    input = received.mapped().take(watchdog_);
  } else if (auto below = mb.outputs.extract(action.unit - 1)) {
    input = std::move(below.mapped());
  }
  if (run.input.training && action.keep == Keep::kInput) mb.kept_inputs[action.unit] = input;
  if (action.unit == last_unit && run.input.observe_logits) observe_logits(run, action, input);
  Activations output = run_unit(run, action, record.get(), std::move(input));
  if (record != nullptr) mb.units[action.unit] = std::move(record);
  if (action.unit != last_unit) {
    mb.outputs[action.unit] = std::move(output);
    return;
  }
  TRIREME_CHECK(output.size() == 1 && output[0].num_elems() == 1,
                "the last block must return one scalar, the loss");
  ctx_.backend->copy(ctx_.exec, run.local_losses.slice(action.micro_batch, {}), output[0].reshape({}));
  output.clear();
  if (!run.input.training) mb = MicroBatch{};
}

void Executor::recompute(Run& run, const Action& action) {
  MicroBatch& mb = run.of(action);
  Activations input;
  if (auto kept = mb.kept_inputs.extract(action.unit)) {
    input = std::move(kept.mapped());
  } else if (auto below = mb.outputs.extract(action.unit - 1)) {  // recomputed just now
    input = std::move(below.mapped());
  }
  auto record = std::make_unique<MicroBatchUnit>();
  mb.outputs[action.unit] = run_unit(run, action, record.get(), std::move(input));
  mb.units[action.unit] = std::move(record);
}

Context Executor::backward_context(ParameterResolver& parameters) const {
  Context ctx = ctx_;
  ctx.parameters = &parameters;
  ctx.training = true;
  return ctx;
}

// Takes what the forward left, and the gradients of the unit's outputs.
Executor::BackwardPass Executor::begin_backward(Run& run, const Action& action) {
  const bool is_loss = action.unit == static_cast<int>(blocks_.size()) - 1;
  MicroBatch& mb = run.of(action);
  BackwardPass pass{.unit = std::move(mb.units.at(action.unit)), .seeds = {}};
  mb.units.erase(action.unit);
  mb.outputs.erase(action.unit);  // a recomputed output that nobody but this backward was for
  std::vector<Tensor> output_gradients;
  if (const auto received = run.gradients.extract({action.unit, action.micro_batch})) {
    output_gradients = received.mapped().take(watchdog_);
  } else if (auto above = mb.gradients.extract(action.unit)) {
    output_gradients = std::move(above.mapped());
  }
  const std::vector<ValueId>& outputs = pass.unit->outputs;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i] == kNoValue) continue;
    Tensor gradient = is_loss ? Tensor() : std::move(output_gradients.at(i));
    if (is_loss || gradient.defined()) pass.seeds.push_back({outputs[i], std::move(gradient)});
  }
  return pass;
}

// Leaves the gradients of the unit's inputs for the unit below; those of parameters go where `ctx` says.
void Executor::differentiate(Run& run, const Action& action, BackwardPass pass, Context& ctx) {
  MicroBatch& mb = run.of(action);
  std::vector<Tensor> input_gradients =
      pass.unit->tape.backward(ctx, std::move(pass.seeds), pass.unit->inputs);
  if (action.unit > 0) {
    mb.gradients[action.unit - 1] = std::move(input_gradients);
  } else {
    mb = MicroBatch{};
  }
  const bool is_loss = action.unit == static_cast<int>(blocks_.size()) - 1;
  if (is_loss && stages_.pipeline > 1) mb.batch = Batch{};
}

void Executor::end_backward(Run& run, const Action& action) {
  GradAccumulator& gradients = *run.training.gradients;
  if (run.observer != nullptr) {
    for (const auto& leaf : gradients.take_leaves(ctx_, action.unit))
      (*run.observer)(action.micro_batch, leaf);
  } else {
    gradients.end(ctx_, action.unit, action.micro_batch);
  }
}

void Executor::backward(Run& run, const Action& action) {
  BackwardPass pass = begin_backward(run, action);
  GradAccumulator& gradients = *run.training.gradients;
  gradients.begin(ctx_, action.unit, action.micro_batch);
  UnitParameters parameters(params_, layout_.uses[static_cast<std::size_t>(action.unit)], &gradients);
  Context ctx = backward_context(parameters);
  differentiate(run, action, std::move(pass), ctx);
  end_backward(run, action);
}

// See [Note: backward in two parts].
void Executor::backward_input(Run& run, const Action& action) {
  BackwardPass pass = begin_backward(run, action);
  DeferredGradients& deferred = run.deferred[{action.unit, action.micro_batch}];
  UnitParameters parameters(params_, layout_.uses[static_cast<std::size_t>(action.unit)], nullptr);
  StagedParameters staged(ctx_, parameters, deferred);
  Context ctx = backward_context(staged);
  ctx.deferred = &deferred;
  differentiate(run, action, std::move(pass), ctx);
}

void Executor::backward_weight(Run& run, const Action& action) {
  GradAccumulator& gradients = *run.training.gradients;
  gradients.begin(ctx_, action.unit, action.micro_batch);
  UnitParameters parameters(params_, layout_.uses[static_cast<std::size_t>(action.unit)], &gradients);
  const auto deferred = run.deferred.extract({action.unit, action.micro_batch});
  deferred.mapped().run(backward_context(parameters));
  end_backward(run, action);
}

Tensor Executor::infer(const HostBatch& batch) {
  if (stages_.pipeline > 1) {
    throw Error(ErrorCode::kUnsupported,
                "a model that is cut into stages does not infer: load its checkpoint into an engine of one "
                "stage");
  }
  Batch on_device;
  on_device.inputs =
      ctx_.from_host(batch.inputs.data(), batch.input_shape, batch.input_dtype, MemoryCategory::kBatch);
  Activations activations;
  for (std::size_t u = 0; u < blocks_.size(); ++u) {
    const auto unit = static_cast<int>(u);
    if (params_.shards_parameters()) change_residency({.kind = ActionKind::kGather, .unit = unit});
    UnitParameters parameters(params_, layout_.uses[u], nullptr);
    UnitStatistics statistics(statistics_, unit, -1);
    Context ctx = ctx_;
    ctx.parameters = &parameters;
    ctx.statistics = &statistics;
    activations = blocks_[u]->forward(ctx, activations, on_device);
    if (params_.shards_parameters()) change_residency({.kind = ActionKind::kRelease, .unit = unit});
  }
  TRIREME_CHECK(activations.size() == 1, "the last block must return one tensor, got {}", activations.size());
  return activations[0];
}

}  // namespace trireme
