// What an Executor holds while it plays a plan.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "parallel/run/executor.h"
#include "runtime/deferred_gradients.h"

namespace trireme {

struct Executor::MicroBatchUnit {
  Tape tape;
  std::vector<ValueId> inputs, outputs;
};

struct Executor::MicroBatch {
  Batch batch;                                           // of the first and of the last unit, where they run
  std::map<int, Activations> outputs;                    // by unit, until its user takes them
  std::map<int, Activations> kept_inputs;                // by unit, for recompute
  std::map<int, std::unique_ptr<MicroBatchUnit>> units;  // recorded forwards, by unit
  std::map<int, std::vector<Tensor>> gradients;          // of a unit's outputs, by unit
};

struct Executor::BackwardPass {
  std::unique_ptr<MicroBatchUnit> unit;
  std::vector<Tape::Seed> seeds;
};

struct Executor::Run {
  // Tensors on their way to this rank or from it.
  struct Message {
    std::vector<Tensor> tensors;
    std::vector<Work> works;
    int peer = -1;                                 // rank
    std::vector<Tensor> take(Watchdog* watchdog);  // waits
    void wait(Watchdog* watchdog);
  };
  struct Place {
    int unit = 0, micro_batch = 0;
    auto operator<=>(const Place&) const = default;
  };

  const ExecutionInput& input;
  TrainingState training;
  std::vector<MicroBatch> micro_batches;
  const LeafObserver* observer = nullptr;                           // of a replay
  std::map<Place, Message> inputs;                                  // of units, asked for
  std::map<Place, Message> gradients;                               // of units' outputs, asked for
  std::map<std::pair<ActionKind, int>, std::deque<Message>> sends;  // the last ones, by kind and unit
  std::map<Place, DeferredGradients> deferred;  // of units, from BackwardInput to BackwardWeight
  int send_window = 1;
  Tensor local_losses;  // [micro-batches of this rank]
  Tensor all_losses;    // [micro-batches of all ranks]

  MicroBatch& of(const Action& action) { return micro_batches[static_cast<std::size_t>(action.micro_batch)]; }
  void finish_sends(Watchdog* watchdog);
};

}  // namespace trireme
