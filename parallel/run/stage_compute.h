// Runs forward and backward of a stage's units during one execution of a plan, and holds the tensors of its
// micro-batches in between. Does not communicate with other stages.
//
// [Note: kept codes] In mode fp8 a training step with several micro-batches makes the codes of a weight once
// and keeps them from their first use in the step to the unit's last backward, two bytes per element with
// both orders. Sharded parameters are released in between, and their codes with them, unless
// Layout::keep_gathered. Codes do not outlive the step, after which scales and weights change. With one
// micro-batch each order is used once, so nothing is kept. Units with quantized groups keep none either:
// codes would take four times the memory that NF4 takes. The first user of a weight leaves its maximum as the
// sample of its micro-batch. The other micro-batches leave none: the largest over all is the same.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "parallel/plan/action.h"
#include "parallel/run/execution_input.h"
#include "parallel/run/rank_parts.h"
#include "runtime/deferred_gradients.h"
#include "runtime/tape.h"

namespace trireme {

class StageCompute {
 public:
  /// Both outlive this.
  StageCompute(const RankParts& parts, const ExecutionInput& input);

  // Actions. `received`: tensors from another stage; if empty, the tensors that an earlier action of this
  // rank has stored here are used.

  /// Loads the batch for units that read it. Call it before the Forward of each unit.
  void read_batch(const Action& action);
  void forward(const Action& action, Activations received);
  /// Activation checkpointing.
  void recompute(const Action& action);
  void backward(const Action& action, std::vector<Tensor> received);
  /// See [Note: backward in two parts].
  void backward_input(const Action& action, std::vector<Tensor> received);
  void backward_weight(const Action& action);

  /// Drops the codes of a unit's weights, when its parameters are released. See [Note: kept codes].
  void drop_codes(int unit) { codes_.erase(unit); }

  /// Takes the activation or gradient for a send.
  std::vector<Tensor> take_sent(const Action& send);

  /// Losses of a training step by local micro-batch, [1, M] fp32 on the device; 0 for micro-batches this rank
  /// lacks. [2, M] if the last block counts the terms of its loss: losses, then counts.
  const Tensor& losses() const { return losses_; }
  /// The same of an evaluation, in host memory. Waits for the device.
  const std::vector<float>& evaluated_losses();

 private:
  /// A unit's forward, recorded for its backward.
  struct Recorded {
    explicit Recorded(Recompute recompute) : tape(recompute) {}
    Tape tape;
    std::vector<ValueId> inputs, outputs;
  };
  /// The live tensors of a micro-batch, by unit.
  struct MicroBatch {
    Batch batch;                                        // of the first and of the last unit, if they run here
    std::map<int, Activations> outputs;                 // until their user takes them
    std::map<int, Activations> kept_inputs;             // for recompute
    std::map<int, std::unique_ptr<Recorded>> recorded;  // until their backward
    std::map<int, std::vector<Tensor>> gradients;       // of outputs
  };
  MicroBatch& of(const Action& a) { return micro_batches_[static_cast<std::size_t>(a.micro_batch)]; }
  bool is_last(int unit) const { return unit == static_cast<int>(parts_.blocks.size()) - 1; }
  /// Runs a unit's block. Records it for backward in `record`, unless that is null.
  Activations run_unit(const Action& action, Recorded* record, Activations input);
  /// `output`: of the last block.
  void add_loss(int micro_batch, const Activations& output);
  /// Copies losses of an evaluation that are on the device to the host.
  void read_losses();
  /// Runs the last block again, without targets; it is a small part of the model.
  void observe_logits(const Action& action, Activations input);
  /// A unit's backward, ready to run.
  struct Backward {
    std::unique_ptr<Recorded> forward;
    std::vector<Tape::Seed> seeds;
  };
  /// Takes the recorded forward, and the gradients of the unit's outputs.
  Backward begin_backward(const Action& action, std::vector<Tensor> received);
  /// Stores the gradients of the unit's inputs for the unit below. `ctx` determines where the parameters'
  /// gradients go.
  void differentiate(const Action& action, Backward backward, Context ctx);
  Context backward_context(ParameterResolver& parameters, StatisticResolver* statistics) const;
  void end_backward(const Action& action);
  UnitStatistics statistics_of(const Action& action);
  /// Drops the codes of the unit's weights after the unit's last backward of the step.
  void count_backward(const Action& action);

  const RankParts& parts_;
  const ExecutionInput& input_;
  std::vector<MicroBatch> micro_batches_;
  // Keyed by unit and micro-batch; kept from BackwardInput to BackwardWeight.
  std::map<std::pair<int, int>, DeferredGradients> deferred_;
  std::map<int, WeightCodes> codes_;          // by unit: [Note: kept codes]
  std::map<int, std::int64_t> num_backward_;  // by unit: micro-batches that are done
  const std::int64_t numbers_;                // of a micro-batch: its loss, and perhaps a count
  // In training, indexed by local micro-batch. An evaluation may have any number of micro-batches. It copies
  // a few losses at a time to the host, so that it needs no more memory than a step.
  Tensor losses_;
  std::vector<int> on_device_;  // in evaluation: micro-batches whose losses are in losses_
  std::vector<float> evaluated_losses_;
};

}  // namespace trireme
