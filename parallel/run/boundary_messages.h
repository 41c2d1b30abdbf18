// Messages between neighbouring units of two stages in one play of a plan: activations, and gradients in the
// other direction. See [Note: what blocks].
#pragma once

#include <deque>
#include <map>
#include <vector>

#include "parallel/plan/action.h"
#include "parallel/run/execution_input.h"
#include "parallel/run/rank_parts.h"

namespace trireme {

class BoundaryMessages {
 public:
  /// For a plan with this RankPlan::send_window. `parts` and `input` outlive this.
  BoundaryMessages(const RankParts& parts, const ExecutionInput& input, int send_window)
      : parts_(parts), input_(input), send_window_(static_cast<std::size_t>(send_window)) {}

  /// Starts to send tensors of the action's unit to its neighbour. Waits for earlier sends beyond the window.
  /// Throws Error(kInvalidInput) if the shapes are not the ones that the other stage expects.
  void send(const Action& send, const std::vector<Tensor>& tensors);
  /// Posts a receive.
  void receive(const Action& receive);
  /// Waits for the message for the action's unit and micro-batch, on the channel that it takes from. Returns
  /// nothing if the neighbouring unit is on this rank.
  std::vector<Tensor> take(const Action& user);
  void finish_sends();

 private:
  struct Message {
    int peer = -1;  // rank
    std::vector<Tensor> tensors;
    std::vector<Work> works;
  };
  struct Received {
    Channel channel = Channel::kNone;
    int unit = 0, micro_batch = 0;
    auto operator<=>(const Received&) const = default;
  };
  void wait(Message& message);
  /// The output shapes of a unit in this play. See [Note: shapes of a play].
  const std::vector<TensorSpec>& outputs_of(int unit, int micro_batch);
  Communicator& stages() const { return *parts_.groups.along(Axis::kPipeline); }
  int stage_of_peer(const Action& a) const { return parts_.groups.mesh.coord(a.peer)[Axis::kPipeline]; }

  const RankParts& parts_;
  const ExecutionInput& input_;
  const std::size_t send_window_;
  std::map<Received, Message> received_;
  std::map<std::pair<ActionKind, int>, std::deque<Message>> sends_;  // in flight, by kind and unit
};

}  // namespace trireme
