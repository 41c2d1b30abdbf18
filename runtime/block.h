// A block: the unit of a model, and so of placement, recompute and residency. Plain single-device forward
// code.
//
// A model is a list of blocks; block i + 1 receives what block i returned. A block never sees ranks, streams
// or shards. forward() must be a pure function of its arguments, its parameters and ctx's random keys: it may
// be run again.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/context.h"
#include "runtime/parameter.h"
#include "runtime/tensor.h"
#include "runtime/tensor_axis.h"

namespace trireme {

/// A micro-batch. Dim 0 of both tensors is the sample.
struct Batch {
  Tensor inputs;          // tokens [B, T] int32, images [B, H, W, C]
  Tensor targets;         // tokens [B, T] int32 (negative: ignored), labels [B] or [B, K] int32
  Tensor target_weights;  // [B, K] fp32, or undefined: all 1
  // Of rows of documents, all int32; undefined: a sample is one document of type 0. See DocumentRows.
  Tensor key_bounds;        // [B, T, 2]
  Tensor positions, types;  // [B, T]
  /// Weight of one target in the loss: 1 / (targets of the global batch).
  float inv_num_targets = 1.0f;
};

/// The output of a block, and the input of the next: usually one tensor.
using Activations = std::vector<Tensor>;

class Block {
 public:
  explicit Block(std::string name) : Block(name, name) {}
  /// `prefix` precedes the names of parameters; empty: nothing does.
  Block(std::string name, std::string prefix) : name_(std::move(name)), prefix_(std::move(prefix)) {}
  virtual ~Block() = default;
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  /// Unique in the model: "blocks.3". Parameters are called prefix + "." + spec.name, the prefix is the name
  /// where nothing else was said; statistics likewise.
  const std::string& name() const { return name_; }
  const std::vector<ParameterSpec>& parameters() const { return parameters_; }
  const std::vector<StatisticSpec>& statistics() const { return statistics_; }
  /// What it has the ranks of the tensor axis do together: see runtime/tensor_axis.h.
  const TensorCalls& tensor_calls() const { return tensor_calls_; }
  /// The same of a sharded sequence. Empty: the block does not know of shards.
  const std::optional<TensorCalls>& sequence_calls() const { return sequence_calls_; }
  /// Of a weight; null: it has none. See [Note: adapters] in runtime/adapter.h.
  const Adapter* adapter(ParamRef weight) const;
  std::string full_name(const ParameterSpec& spec) const { return full_name(spec.name); }
  std::string full_name(const StatisticSpec& spec) const { return full_name(spec.name); }

  /// Of blocks of one class whose parameters have the same shapes, those with equal variants do the same work
  /// on equal inputs: foresight measures such blocks once.
  virtual std::string variant() const { return ""; }

  /// Gives the weight of an inner linear layer an adapter of `rank`, before the block runs for the first
  /// time. Throws Error(kInvalidInput) where the rank is larger than a dim of the weight, and
  /// Error(kUnsupported) for a weight in tensor chunks.
  void add_adapter(ParamRef weight, std::int64_t rank, float scale);

  /// `input` is empty for the first block. The last block of a model being trained returns the loss, a
  /// scalar; a last block must return logits instead when batch.targets is undefined.
  virtual Activations forward(Context& ctx, const Activations& input, const Batch& batch) const = 0;

 protected:
  /// Called from the constructors of derived blocks.
  ParamRef declare(ParameterSpec spec) {
    parameters_.push_back(std::move(spec));
    return {static_cast<int>(parameters_.size()) - 1};
  }
  void declare_tensor_calls(TensorCalls calls) { tensor_calls_ = std::move(calls); }
  void declare_sequence_calls(TensorCalls calls) { sequence_calls_ = std::move(calls); }
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
  std::map<int, Adapter> adapters_;  // by the index of their weight
};

using BlockList = std::vector<std::unique_ptr<Block>>;

}  // namespace trireme
