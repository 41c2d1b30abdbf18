#include "parallel/run/boundary_messages.h"

#include "runtime/base/error.h"

namespace trireme {
namespace {

int tag_of(Channel channel) {
  return channel == Channel::kActivations ? kActivationTag : kGradientTag;
}

bool has_gradient(DType dtype) {
  return dtype != DType::kInt32 && dtype != DType::kUInt8;
}

}  // namespace

void BoundaryMessages::wait(Message& message) {
  if (parts_.watchdog != nullptr) parts_.watchdog->wait_for(message.peer);
  for (Work& work : message.works) work.wait();
  message.works.clear();
  if (parts_.watchdog != nullptr) parts_.watchdog->wait_for(-1);
}

void BoundaryMessages::finish_sends() {
  for (auto& [from, messages] : sends_) {
    for (Message& message : messages) wait(message);
  }
  sends_.clear();
}

const std::vector<TensorSpec>& BoundaryMessages::outputs_of(int unit, int micro_batch) {
  return parts_.shapes->of(unit,
                           {.num_samples = input_.batch.samples_of(parts_.data_rank(), micro_batch).count,
                            .training = input_.training});
}

void BoundaryMessages::send(const Action& send, const std::vector<Tensor>& tensors) {
  TRIREME_CHECK(!tensors.empty(), "there is nothing to send");
  const Channel channel = traits(send.kind).channel;
  std::deque<Message>& under_way = sends_[{send.kind, send.unit}];
  while (under_way.size() >= send_window_) {
    wait(under_way.front());
    under_way.pop_front();
  }
  Message& message = under_way.emplace_back();
  message.peer = send.peer;
  const bool activation = channel == Channel::kActivations;
  const auto& specs = outputs_of(activation ? send.unit : send.unit - 1, send.micro_batch);
  TRIREME_CHECK(tensors.size() == specs.size(), "sends {} tensors, the other stage expects {}",
                tensors.size(), specs.size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (!activation && !tensors[i].defined()) {
      TRIREME_CHECK(!has_gradient(specs[i].dtype),
                    "output {} of the block before has no gradient here: cut the model elsewhere "
                    "(Layout::cut)",
                    i);
      continue;
    }
    const TensorSpec sent{tensors[i].shape(), tensors[i].dtype()};
    TRIREME_CHECK(sent == specs[i],
                  "tensor {} that goes over this boundary is {}, the other stage expects {}", i,
                  sent.to_string(), specs[i].to_string());
    message.works.push_back(stages().send(tensors[i], stage_of_peer(send), tag_of(channel)));
  }
}

void BoundaryMessages::receive(const Action& receive) {
  const Channel channel = traits(receive.kind).channel;
  const bool activation = channel == Channel::kActivations;
  Message& message = received_[{channel, receive.unit, receive.micro_batch}];
  message.peer = receive.peer;
  for (const TensorSpec& spec :
       outputs_of(activation ? receive.unit - 1 : receive.unit, receive.micro_batch)) {
    if (!activation && !has_gradient(spec.dtype)) {
      message.tensors.emplace_back();
      continue;
    }
    const Tensor& tensor = message.tensors.emplace_back(parts_.ctx.empty(spec.shape, spec.dtype));
    message.works.push_back(stages().recv(tensor, stage_of_peer(receive), tag_of(channel)));
  }
}

std::vector<Tensor> BoundaryMessages::take(const Action& user) {
  auto received = received_.extract({traits(user.kind).takes_from, user.unit, user.micro_batch});
  if (!received) return {};
  wait(received.mapped());
  return std::move(received.mapped().tensors);
}

}  // namespace trireme
