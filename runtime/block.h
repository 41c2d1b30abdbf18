// A block: the unit of a model, and so of placement, recompute and residency. Plain single-device forward
// code.
//
// A model is a list of blocks; block i + 1 receives the output of block i. A block never sees ranks, streams
// or shards. forward() must be a pure function of its arguments, its parameters and ctx's random keys: it may
// run again.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/context.h"
#include "runtime/parameter.h"
#include "runtime/tensor.h"
#include "runtime/tensor_axis.h"

namespace trireme {

/// A micro-batch. Dim 0 of every tensor is the sample.
struct Batch {
  Tensor inputs;  // tokens [B, T] int32, images [B, H, W, C] fp32
  // Tokens [B, T] int32 (negative: ignored), labels [B] or [B, K] int32, or numbers of any shape [B, ...]
  // fp32.
  Tensor targets;
  Tensor target_weights;  // of labels [B, K] fp32, of numbers [B] fp32, or undefined: all 1
  // [B, K] int32, or undefined: the tokens of each sample that have targets, ascending, filled up with -1.
  // The head then computes these tokens alone.
  Tensor target_positions;
  // For rows of several documents (see DocumentRows), all int32. Undefined: each sample is one document of
  // type 0.
  Tensor key_bounds;        // [B, T, 2]
  Tensor positions, types;  // [B, T]
  // Further inputs, undefined if the samples have none. Only the first and the last block see them: a block
  // between them receives what it needs from the block before.
  Tensor timesteps;  // [B] fp32: the noise step of each sample
  Tensor condition;  // [B, L, D] fp32: vectors for cross-attention
  Tensor classes;    // [B] int32
  /// Weight of one target in the loss: 1 / (targets of the global batch).
  float inv_num_targets = 1.0f;
};

// [Note: counted losses] Data know the number of targets of a step, so a block divides its loss by it. A
// detector divides by the number of anchors that it assigns to objects, which only its forward knows. Its
// block returns {loss, count}, both [] fp32: the loss as any other, with the weight inv_num_targets, and the
// number of terms in this micro-batch, a whole number below 2^24. The engine adds the counts of the global
// batch, and divides losses and gradients by
//   divisor = max(1, sum of counts) * inv_num_targets,
// the losses in ReduceLoss, and the gradients in the clip coefficient, where the loss scale is divided out.
// The sum is exact, so the divisor has the same bits on every layout, and the division needs no pass over the
// gradients. Without targets the weight, the losses and the gradients are 0, and the divisor is 1. Rejected:
// a forward of all micro-batches before the first backward, which keeps all their activations.

/// The output of a block, and the input of the next: usually one tensor.
using Activations = std::vector<Tensor>;

class Block {
 public:
  explicit Block(std::string name) : Block(name, name) {}
  /// `prefix` precedes the names of parameters; empty: no prefix.
  Block(std::string name, std::string prefix) : name_(std::move(name)), prefix_(std::move(prefix)) {}
  virtual ~Block() = default;
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  /// Unique in the model: "blocks.3". Full names of parameters and statistics are prefix + "." + spec.name.
  /// The prefix defaults to the name.
  const std::string& name() const { return name_; }
  const std::vector<ParameterSpec>& parameters() const { return parameters_; }
  const std::vector<StatisticSpec>& statistics() const { return statistics_; }
  /// Collective calls over the tensor axis: see runtime/tensor_axis.h.
  const TensorCalls& tensor_calls() const { return tensor_calls_; }
  /// The same calls with a sharded sequence. Empty: the block does not support sequence shards.
  const std::optional<TensorCalls>& sequence_calls() const { return sequence_calls_; }
  /// The adapter of a weight, or null. See [Note: adapters] in runtime/adapter.h.
  const Adapter* adapter(ParamRef weight) const;
  std::string full_name(const ParameterSpec& spec) const { return full_name(spec.name); }
  std::string full_name(const StatisticSpec& spec) const { return full_name(spec.name); }

  /// Distinguishes blocks of one class whose parameter shapes are equal but whose work differs. The cost
  /// model measures blocks with equal variants once.
  virtual std::string variant() const { return ""; }

  /// Gives the weight of an inner linear layer an adapter of `rank`; for the weight of a chunk, all chunks of
  /// the layer. Call before the block first runs. Throws Error(kInvalidInput) if the rank is larger than a
  /// dim of the whole weight.
  void add_adapter(ParamRef weight, std::int64_t rank, float scale);

  /// True if the last block returns {loss, count}: see [Note: counted losses].
  virtual bool counts_loss_terms() const { return false; }

  /// `input` is empty for the first block. The last block of a model being trained returns the loss, a
  /// scalar. When batch.targets is undefined, it must return logits instead.
  virtual Activations forward(Context& ctx, const Activations& input, const Batch& batch) const = 0;

 protected:
  /// Called from the constructors of derived blocks.
  ParamRef declare(ParameterSpec spec) {
    parameters_.push_back(std::move(spec));
    return {static_cast<int>(parameters_.size()) - 1};
  }
  void declare_tensor_calls(TensorCalls calls) { tensor_calls_ = std::move(calls); }
  void declare_sequence_calls(TensorCalls calls) { sequence_calls_ = std::move(calls); }
  /// The chunks of the block's `sum`-th sum over chunks read parameters that they share: one more sum in
  /// backward, however many parameters. Call after the two declarations above.
  void declare_shared_parameters(int sum);
  StatisticRef declare_statistic(StatisticSpec spec) {
    statistics_.push_back(std::move(spec));
    return {static_cast<int>(statistics_.size()) - 1};
  }

 private:
  std::string full_name(const std::string& own) const { return prefix_.empty() ? own : prefix_ + "." + own; }

  std::string name_, prefix_;
  std::vector<ParameterSpec> parameters_;
  std::vector<StatisticSpec> statistics_;
  TensorCalls tensor_calls_;
  std::optional<TensorCalls> sequence_calls_;
  std::set<int> shared_sums_;        // with declare_shared_parameters()
  std::map<int, Adapter> adapters_;  // by the index of the weight
};

using BlockList = std::vector<std::unique_ptr<Block>>;

}  // namespace trireme
