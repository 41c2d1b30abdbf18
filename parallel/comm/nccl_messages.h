// Messages between pairs of ranks.
//
// NCCL's send and recv are kernels that wait for each other on one stream: a rank that receives from its left
// before it sends to its right would wait for ever in a ring where all do so. So messages are collected and
// handed over as one group when any of them is waited for; a group's messages make progress together.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "parallel/comm/nccl_job.h"

namespace trireme {

class NcclMessages : public std::enable_shared_from_this<NcclMessages> {
 public:
  NcclMessages(std::shared_ptr<NcclJob> job, std::shared_ptr<NcclChannel> channel);

  /// `call` is kSend or kRecv. The message starts after what stands on the compute stream now.
  Work post(CallKind call, const Tensor& tensor, int peer, std::string text);

  /// Hands over what has been posted.
  void flush();

 private:
  friend class NcclMessageWork;
  struct Message {
    CallKind call;
    Tensor tensor;
    int peer;
    std::string text;
    std::shared_ptr<CommEvent> done;  // recorded by flush()
  };

  const std::shared_ptr<NcclJob> job_;
  const std::shared_ptr<NcclChannel> channel_;
  std::vector<Message> posted_;
};

}  // namespace trireme
