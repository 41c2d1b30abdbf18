#include "parallel/comm/nccl_messages.h"

#include <algorithm>
#include <utility>

#include "parallel/comm/nccl_work.h"
#include "runtime/base/error.h"

namespace trireme {

class NcclMessageWork : public Work::Impl {
 public:
  NcclMessageWork(std::shared_ptr<NcclMessages> messages, std::shared_ptr<CommEvent> done, Tensor tensor)
      : messages_(std::move(messages)), done_(std::move(done)), tensor_(std::move(tensor)) {}

  void wait() override {
    messages_->flush();
    messages_->job_->throw_if_failed();
    done_->make_wait(messages_->job_->compute_stream());
  }
  // What is not yet handed over keeps its tensor in the list of messages.
  void abandon() noexcept override { messages_->job_->keep(done_, {std::move(tensor_)}); }

 private:
  std::shared_ptr<NcclMessages> messages_;
  std::shared_ptr<CommEvent> done_;
  Tensor tensor_;
};

NcclMessages::NcclMessages(std::shared_ptr<NcclJob> job, std::shared_ptr<NcclChannel> channel)
    : job_(std::move(job)), channel_(std::move(channel)) {}

Work NcclMessages::post(CallKind call, const Tensor& tensor, int peer, std::string text) {
  job_->throw_if_failed();
  CommEvent ready;
  ready.record(job_->compute_stream());
  ready.make_wait(channel_->stream());
  auto done = std::make_shared<CommEvent>();
  posted_.push_back({.call = call, .tensor = tensor, .peer = peer, .text = std::move(text), .done = done});
  return Work(std::make_unique<NcclMessageWork>(shared_from_this(), std::move(done), tensor));
}

void NcclMessages::flush() {
  if (posted_.empty()) return;
  job_->throw_if_failed();
  const std::vector<Message> messages = std::exchange(posted_, {});
  ncclResult_t result = ncclGroupStart();
  const Message* current = &messages.front();
  for (const Message& message : messages) {
    // NCCL takes an empty message on neither side.
    if (result != ncclSuccess || message.tensor.num_elems() == 0) continue;
    current = &message;
    const auto count = static_cast<std::size_t>(message.tensor.num_elems());
    const ncclDataType_t type = nccl_type(message.tensor.dtype());
    result = message.call == CallKind::kSend ? ncclSend(message.tensor.data(), count, type, message.peer,
                                                        channel_->comm(), channel_->stream())
                                             : ncclRecv(message.tensor.data(), count, type, message.peer,
                                                        channel_->comm(), channel_->stream());
  }
  const ncclResult_t end = ncclGroupEnd();
  check_nccl(result != ncclSuccess ? result : end, current->text);
  for (const Message& message : messages) {
    message.done->record(channel_->stream());
    job_->add(message.text, message.done);
  }
}

}  // namespace trireme
