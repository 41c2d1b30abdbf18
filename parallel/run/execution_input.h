// The input of one play of a plan: samples, mode and observers.
#pragma once

#include <functional>
#include <vector>

#include "parallel/layout/batch_layout.h"
#include "parallel/layout/stage_map.h"
#include "parallel/plan/action.h"
#include "parallel/reduce/grad_accumulator.h"
#include "runtime/block.h"
#include "runtime/data/dataset.h"

namespace trireme {

/// Reads samples [first, first + count) of the step's global batch into host memory.
using BatchSource = std::function<HostBatch(std::int64_t first, std::int64_t count)>;

/// Called with the last block's output without targets, and the batch, for each micro-batch of this rank.
using LogitsObserver = std::function<void(const Tensor& logits, const Batch& batch)>;

/// Called with the parameter gradients of a micro-batch of this rank, by bucket (see ModelLayout), once all
/// of the bucket's blocks have run backward.
using LeafObserver = std::function<void(int micro_batch, const GradAccumulator::Leaf& leaf)>;

/// Called with the loss of a local micro-batch in a training step, on the ranks of the last stage.
using LossObserver = std::function<void(int micro_batch, float loss)>;

struct ExecutionInput {
  BatchSource source;
  BatchLayout batch;
  std::int64_t num_targets = 1;  // of the whole global batch: the loss is their mean; without targets, 0
  RngKey rng;                    // seed and step
  bool training = true;
  Tensor gradient_scale;  // [] fp32, or undefined: the factor of all gradients (see [Note: loss scaling])
  const std::vector<Batch>* uploaded = nullptr;  // by local micro-batch, instead of `source`; or null
  LogitsObserver observe_logits;                 // in evaluation; may be null
  LossObserver observe_loss;                     // in training, before the backward; may be null
  LeafObserver observe_leaves;                   // makes it a replay: see Executor::run

  /// See Batch.
  float inv_num_targets() const { return num_targets > 0 ? 1.0f / static_cast<float>(num_targets) : 0.0f; }
};

/// True for forwards that read the batch. With several stages these are the first and the last unit; with one
/// stage, unit 0 reads it for all.
bool reads_batch(const Action& action, const StageMap& stages);

/// Uploads a local micro-batch of a data rank into `batch`, and reuses the buffers of `batch`. Throws
/// Error(kInvalidInput) if they have other shapes.
void upload_batch(const Context& ctx, const ExecutionInput& input, int data_rank, std::int64_t micro_batch,
                  Batch& batch);

}  // namespace trireme
