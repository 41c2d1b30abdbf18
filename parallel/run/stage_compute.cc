#include "parallel/run/stage_compute.h"

#include <algorithm>

#include "runtime/base/error.h"

namespace trireme {
namespace {

// Number of losses of an evaluation that are kept on the device; their bytes fill one unit of the allocator.
constexpr std::int64_t kEvaluatedOnDevice = 16;

using TensorsByUnit = std::map<int, std::vector<Tensor>>;

std::vector<Tensor> take(TensorsByUnit& tensors, int unit) {
  auto taken = tensors.extract(unit);
  return taken ? std::move(taken.mapped()) : std::vector<Tensor>();
}

}  // namespace

StageCompute::StageCompute(const RankParts& parts, const ExecutionInput& input)
    : parts_(parts),
      input_(input),
      micro_batches_(static_cast<std::size_t>(input.batch.per_rank())),
      numbers_(counts_loss_terms(parts.blocks) ? 2 : 1),
      losses_(parts.ctx.zeros({numbers_, input.training ? input.batch.per_rank() : kEvaluatedOnDevice})),
      evaluated_losses_(input.training ? 0 : static_cast<std::size_t>(numbers_) * micro_batches_.size(),
                        0.0f) {}

void StageCompute::read_batch(const Action& action) {
  if (!reads_batch(action, parts_.stages)) return;
  Batch& batch = of(action).batch;
  if (input_.uploaded != nullptr) {
    batch = (*input_.uploaded)[static_cast<std::size_t>(action.micro_batch)];
  } else {
    upload_batch(parts_.ctx, input_, parts_.data_rank(), action.micro_batch, batch);
  }
  batch.inv_num_targets = input_.inv_num_targets();
}

Activations StageCompute::run_unit(const Action& action, Recorded* record, Activations input) {
  UnitParameters parameters(parts_, action.unit, nullptr);
  UnitStatistics statistics = statistics_of(action);
  Context ctx = parts_.ctx;
  ctx.parameters = &parameters;
  ctx.statistics = &statistics;
  ctx.training = input_.training;
  ctx.gradient_scale = input_.gradient_scale;
  ctx.tape = record != nullptr ? &record->tape : nullptr;
  ctx.rng = input_.rng;
  ctx.rng.block = static_cast<std::uint16_t>(action.unit);
  ctx.rng.op = 0;
  ctx.first_sample = input_.batch.samples_of(parts_.data_rank(), action.micro_batch).first;
  if (record != nullptr) {
    for (Tensor& tensor : input) {
      tensor = record->tape.watch(tensor);
      record->inputs.push_back(tensor.id());
    }
  }
  Activations output =
      parts_.blocks[static_cast<std::size_t>(action.unit)]->forward(ctx, input, of(action).batch);
  for (Tensor& tensor : output) {
    if (record != nullptr) record->outputs.push_back(tensor.id());
    tensor = tensor.detach();
  }
  return output;
}

UnitStatistics StageCompute::statistics_of(const Action& action) {
  if (!input_.training) return {parts_.statistics, action.unit, -1};
  const auto is_quantized = [this](int group) {
    return parts_.layout.groups[static_cast<std::size_t>(group)].quantized;
  };
  const bool keeps =
      input_.batch.count_of(parts_.data_rank()) > 1 &&
      std::ranges::none_of(parts_.layout.unit_groups[static_cast<std::size_t>(action.unit)], is_quantized);
  return {parts_.statistics, action.unit, action.micro_batch, keeps ? &codes_[action.unit] : nullptr};
}

void StageCompute::count_backward(const Action& action) {
  if (++num_backward_[action.unit] == input_.batch.count_of(parts_.data_rank())) drop_codes(action.unit);
}

void StageCompute::observe_logits(const Action& action, Activations input) {
  Batch& batch = of(action).batch;
  const Tensor targets = std::exchange(batch.targets, Tensor());
  const Activations logits = run_unit(action, nullptr, std::move(input));
  batch.targets = targets;
  input_.observe_logits(logits.at(0), batch);
}

void StageCompute::forward(const Action& action, Activations received) {
  MicroBatch& mb = of(action);
  std::unique_ptr<Recorded> record;
  if (input_.training && action.keep == Keep::kTape) record = std::make_unique<Recorded>(parts_.recompute);
  Activations input = received.empty() ? take(mb.outputs, action.unit - 1) : std::move(received);
  if (input_.training && action.keep == Keep::kInput) mb.kept_inputs[action.unit] = input;
  if (is_last(action.unit) && input_.observe_logits) observe_logits(action, input);
  Activations output = run_unit(action, record.get(), std::move(input));
  if (record != nullptr) mb.recorded[action.unit] = std::move(record);
  if (!is_last(action.unit)) {
    mb.outputs[action.unit] = std::move(output);
    return;
  }
  const bool are_scalars =
      std::ranges::all_of(output, [](const Tensor& tensor) { return tensor.num_elems() == 1; });
  TRIREME_CHECK(std::ssize(output) == numbers_ && are_scalars, "the last block must return {}",
                numbers_ == 1 ? "one scalar, the loss" : "two scalars, the loss and the count of its terms");
  add_loss(action.micro_batch, output);
  output.clear();
  if (!input_.training) mb = MicroBatch{};
}

void StageCompute::add_loss(int micro_batch, const Activations& output) {
  const std::int64_t places = losses_.shape()[1];
  const std::int64_t place = input_.training ? micro_batch : std::ssize(on_device_);
  for (std::int64_t i = 0; i < numbers_; ++i) {
    parts_.ctx.backend->copy(parts_.ctx.exec, losses_.slice(i * places + place, {}),
                             output[static_cast<std::size_t>(i)].reshape({}));
  }
  if (input_.training) {
    if (input_.observe_loss) input_.observe_loss(micro_batch, parts_.ctx.to_host(output.front()).front());
    return;
  }
  on_device_.push_back(micro_batch);
  if (std::ssize(on_device_) == places) read_losses();
}

void StageCompute::read_losses() {
  if (on_device_.empty()) return;
  const std::vector<float> losses = parts_.ctx.to_host(losses_);
  const std::size_t places = losses.size() / static_cast<std::size_t>(numbers_);
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const std::size_t place = i % places;
    if (place >= on_device_.size()) continue;
    const auto micro_batch = static_cast<std::size_t>(on_device_[place]);
    evaluated_losses_[i / places * micro_batches_.size() + micro_batch] = losses[i];
  }
  on_device_.clear();
}

const std::vector<float>& StageCompute::evaluated_losses() {
  read_losses();
  return evaluated_losses_;
}

void StageCompute::recompute(const Action& action) {
  MicroBatch& mb = of(action);
  Activations input = take(mb.kept_inputs, action.unit);
  if (input.empty()) input = take(mb.outputs, action.unit - 1);  // recomputed just now
  auto record = std::make_unique<Recorded>(parts_.recompute);
  mb.outputs[action.unit] = run_unit(action, record.get(), std::move(input));
  mb.recorded[action.unit] = std::move(record);
}

std::vector<Tensor> StageCompute::take_sent(const Action& send) {
  MicroBatch& mb = of(send);
  const bool activation = send.kind == ActionKind::kSendActivation;
  auto sent = take(activation ? mb.outputs : mb.gradients, activation ? send.unit : send.unit - 1);
  if (!input_.training) mb = MicroBatch{};
  return sent;
}

Context StageCompute::backward_context(ParameterResolver& parameters, StatisticResolver* statistics) const {
  Context ctx = parts_.ctx;
  ctx.parameters = &parameters;
  ctx.statistics = statistics;
  ctx.training = true;
  return ctx;
}

StageCompute::Backward StageCompute::begin_backward(const Action& action, std::vector<Tensor> received) {
  MicroBatch& mb = of(action);
  Backward backward{.forward = std::move(mb.recorded.at(action.unit)), .seeds = {}};
  mb.recorded.erase(action.unit);
  mb.outputs.erase(action.unit);  // a recomputed output, which only this backward needed
  std::vector<Tensor> gradients = received.empty() ? take(mb.gradients, action.unit) : std::move(received);
  const std::vector<ValueId>& outputs = backward.forward->outputs;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i] == kNoValue) continue;
    Tensor gradient = is_last(action.unit) ? Tensor() : std::move(gradients.at(i));
    if (is_last(action.unit) || gradient.defined()) {
      backward.seeds.push_back({outputs[i], std::move(gradient)});
    }
  }
  return backward;
}

void StageCompute::differentiate(const Action& action, Backward backward, Context ctx) {
  MicroBatch& mb = of(action);
  std::vector<Tensor> gradients =
      backward.forward->tape.backward(ctx, std::move(backward.seeds), backward.forward->inputs);
  if (action.unit > 0) {
    mb.gradients[action.unit - 1] = std::move(gradients);
  } else {
    mb = MicroBatch{};
  }
  if (is_last(action.unit) && parts_.stages.pipeline > 1) mb.batch = Batch{};
}

void StageCompute::end_backward(const Action& action) {
  if (!input_.observe_leaves) return parts_.gradients.end(parts_.ctx, action.unit, action.micro_batch);
  for (const auto& leaf : parts_.gradients.take_leaves(parts_.ctx, action.unit)) {
    input_.observe_leaves(action.micro_batch, leaf);
  }
}

void StageCompute::backward(const Action& action, std::vector<Tensor> received) {
  Backward backward = begin_backward(action, std::move(received));
  parts_.gradients.begin(parts_.ctx, action.unit, action.micro_batch);
  UnitParameters parameters(parts_, action.unit, &parts_.gradients);
  UnitStatistics statistics = statistics_of(action);
  differentiate(action, std::move(backward), backward_context(parameters, &statistics));
  count_backward(action);
  end_backward(action);
}

void StageCompute::backward_input(const Action& action, std::vector<Tensor> received) {
  Backward backward = begin_backward(action, std::move(received));
  DeferredGradients& deferred = deferred_[{action.unit, action.micro_batch}];
  UnitParameters parameters(parts_, action.unit, nullptr);
  StagedParameters staged(parts_.ctx, parameters, deferred);
  UnitStatistics statistics = statistics_of(action);
  Context ctx = backward_context(staged, &statistics);
  ctx.deferred = &deferred;
  differentiate(action, std::move(backward), ctx);
  count_backward(action);
}

void StageCompute::backward_weight(const Action& action) {
  parts_.gradients.begin(parts_.ctx, action.unit, action.micro_batch);
  UnitParameters parameters(parts_, action.unit, &parts_.gradients);
  auto deferred = deferred_.extract({action.unit, action.micro_batch});
  deferred.mapped().run(backward_context(parameters, nullptr));
  end_backward(action);
}

}  // namespace trireme
