// How the executor talks to the stages before and after its own. See [Note: what blocks].
#include <algorithm>

#include "parallel/run/executor_run.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

int tag_of(const Action& action) {
  return traits(action.kind).channel == Channel::kActivations ? kActivationTag : kGradientTag;
}

bool has_gradient(DType dtype) {
  return dtype != DType::kInt32 && dtype != DType::kUInt8;
}

}  // namespace

void Executor::Run::Message::wait(Watchdog* watchdog) {
  if (watchdog != nullptr) watchdog->wait_for(peer);
  for (Work& work : works) work.wait();
  works.clear();
  if (watchdog != nullptr) watchdog->wait_for(-1);
}

std::vector<Tensor> Executor::Run::Message::take(Watchdog* watchdog) {
  wait(watchdog);
  return std::move(tensors);
}

void Executor::Run::finish_sends(Watchdog* watchdog) {
  for (auto& [from, messages] : sends) {
    for (Message& message : messages) message.wait(watchdog);
  }
  sends.clear();
}

// What a unit hands to the next one in this play. See [Note: shapes of a play].
const std::vector<TensorSpec>& Executor::boundary(const Run& run, int unit, int micro_batch) {
  const BatchLayout& layout = run.input.batch;
  const std::int64_t first = layout.first_sample(layout.global_micro_batch(coord_[Axis::kData], micro_batch));
  return shapes_->of(unit, {.num_samples = std::min(layout.micro_batch, layout.global_batch - first),
                            .training = run.input.training});
}

void Executor::send(Run& run, const Action& action) {
  MicroBatch& mb = run.of(action);
  const bool activation = action.kind == ActionKind::kSendActivation;
  auto taken = (activation ? mb.outputs : mb.gradients).extract(activation ? action.unit : action.unit - 1);
  TRIREME_CHECK(taken, "there is nothing to send");
  std::deque<Run::Message>& under_way = run.sends[{action.kind, action.unit}];
  while (under_way.size() >= static_cast<std::size_t>(run.send_window)) {
    under_way.front().wait(watchdog_);
    under_way.pop_front();
  }
  Run::Message& message = under_way.emplace_back();
  message.peer = action.peer;
  const auto& specs = boundary(run, activation ? action.unit : action.unit - 1, action.micro_batch);
  TRIREME_CHECK(taken.mapped().size() == specs.size(), "sends {} tensors, the other stage expects {}",
                taken.mapped().size(), specs.size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const Tensor& tensor = taken.mapped()[i];
    const TensorSpec& spec = specs[i];
    if (!activation && !tensor.defined()) {
      TRIREME_CHECK(!has_gradient(spec.dtype),
                    "output {} of the block before has no gradient here: cut the model elsewhere "
                    "(EngineOptions::pipeline.cut)",
                    i);
      continue;
    }
    const TensorSpec sent{tensor.shape(), tensor.dtype()};
    TRIREME_CHECK(sent == spec, "tensor {} that goes over this boundary is {}, the other stage expects {}", i,
                  sent.to_string(), spec.to_string());
    message.works.push_back(
        groups_.along(Axis::kPipeline)->send(tensor, stage_of_peer(action), tag_of(action)));
  }
  if (!run.input.training) mb = MicroBatch{};
}

void Executor::receive(Run& run, const Action& action) {
  const bool activation = action.kind == ActionKind::kRecvActivation;
  const auto& specs = boundary(run, activation ? action.unit - 1 : action.unit, action.micro_batch);
  Run::Message& message =
      (activation ? run.inputs : run.gradients)[Run::Place{action.unit, action.micro_batch}];
  message.peer = action.peer;
  for (const TensorSpec& spec : specs) {
    if (!activation && !has_gradient(spec.dtype)) {
      message.tensors.emplace_back();
      continue;
    }
    const Tensor& tensor = message.tensors.emplace_back(ctx_.empty(spec.shape, spec.dtype));
    message.works.push_back(
        groups_.along(Axis::kPipeline)->recv(tensor, stage_of_peer(action), tag_of(action)));
  }
}

void Executor::exchange_tied(Run& run, const Action& action) {
  const bool of_gradient =
      action.kind == ActionKind::kSendTiedGradient || action.kind == ActionKind::kRecvTiedGradient;
  const int peer = stage_of_peer(action);
  std::vector<int> shared;  // groups whose parameters were exchanged
  for (const TiedUnits& tie : ties_) {
    const int owner = stages_.stage_of(tie.owner), user = stages_.stage_of(tie.user);
    const bool ours = (owner == coord_[Axis::kPipeline] && user == peer) ||
                      (user == coord_[Axis::kPipeline] && owner == peer);
    if (!ours || action.unit != (of_gradient ? tie.user : tie.owner)) continue;
    for (const int bucket : tied_buckets(layout_, tie)) {
      const int group = layout_.buckets[static_cast<std::size_t>(bucket)].group;
      const bool fresh = std::ranges::find(shared, group) == shared.end();
      shared.push_back(group);
      if (action.kind == ActionKind::kSendTiedGradient) {
        run.training.gradients->send_use(ctx_, bucket, *groups_.along(Axis::kPipeline), peer);
      } else if (action.kind == ActionKind::kRecvTiedGradient) {
        run.training.gradients->receive_use(ctx_, bucket, *groups_.along(Axis::kPipeline), peer);
      } else if (fresh && action.kind == ActionKind::kSendTiedParameters) {
        params_.send_working(group, *groups_.along(Axis::kPipeline), peer);
      } else if (fresh) {
        params_.receive_working(group, *groups_.along(Axis::kPipeline), peer);
      }
    }
  }
}

void Executor::share_tied_parameters() {
  std::vector<std::pair<int, int>> sent;  // group, stage
  const auto for_ties = [&](auto share) {
    sent.clear();
    for (const TiedUnits& tie : ties_) {
      for (const int bucket : tied_buckets(layout_, tie)) {
        const std::pair key(layout_.buckets[static_cast<std::size_t>(bucket)].group,
                            stages_.stage_of(tie.user));
        if (std::ranges::find(sent, key) != sent.end()) continue;
        sent.push_back(key);
        share(key.first, stages_.stage_of(tie.owner), key.second);
      }
    }
  };
  for_ties([&](int group, int owner, int user) {
    if (owner == coord_[Axis::kPipeline]) params_.send_working(group, *groups_.along(Axis::kPipeline), user);
  });
  for_ties([&](int group, int owner, int user) {
    if (user != coord_[Axis::kPipeline]) return;
    params_.receive_working(group, *groups_.along(Axis::kPipeline), owner);
    if (params_.gathers_updates()) params_.gather_updated(group);
  });
  params_.settle();
}

}  // namespace trireme
