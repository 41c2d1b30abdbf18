// Reverse-mode differentiation: a list of named nodes, recorded by ops while a block runs forward.
//
// The backward of an op is beside its forward, as a struct that recorded() puts on the tape. It saves the
// tensors its backward needs (their bytes can be counted) and refers to parameters by ParamRef. Backward runs
// the nodes in reverse and frees each after it has run. Gradients of one value are added in that order, so
// the sum is the same on every run.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/context.h"
#include "runtime/tensor.h"

namespace trireme {

/// Gradients of tape values while backward runs.
class Gradients {
 public:
  explicit Gradients(std::size_t num_values) : slots_(num_values) {}

  bool has(ValueId id) const;
  /// True for a loss whose gradient is the number 1, without a tensor.
  bool is_unit(ValueId id) const;
  void seed_unit(ValueId id);
  /// Removes and returns the gradient; throws if there is none.
  Tensor take(ValueId id);
  /// Adds `gradient` to the gradient of `id`; ignored for kNoValue. May keep and write memory that is not
  /// shared.
  void add(Context& ctx, ValueId id, Tensor gradient);

  // The whole gradient as fp8 codes, from the only op that reads a value to the linear layer that made it.
  void set_codes(ValueId id, Fp8Codes codes);
  bool has_codes(ValueId id) const;
  Fp8Codes take_codes(ValueId id);

 private:
  struct Slot {
    Tensor tensor;
    bool unit = false;
    Fp8Codes codes = {};
  };
  std::vector<Slot> slots_;
};

class Node {
 public:
  virtual ~Node() = default;
  virtual std::string name() const = 0;
  /// The value whose gradient backward consumes. Without a gradient, backward is skipped.
  virtual ValueId output() const = 0;
  /// Tensors kept for backward.
  virtual std::vector<Tensor> saved() const = 0;
  /// For gradients of parameters see [Note: backward in two parts].
  virtual void backward(Context& ctx, Gradients& gradients) = 0;
};

/// The gradient dy W as a product not yet computed. The sum over the columns of dy is made in groups: see
/// ProductSumArgs.
struct ProductGradient {
  Tensor dy;      // [..., N]
  Tensor weight;  // [N, K]
  MathMode math = MathMode::kFp32;
  int groups = 1;
};

/// Collects gradients of a value that are products, to compute them together with other products.
class ProductCollector {
 public:
  virtual ~ProductCollector() = default;
  virtual void collect(Context& ctx, Gradients& gradients, ProductGradient product) = 0;
};

/// A value that is rebuilt in backward: see saved_tensor.h.
class RebuiltTensor;

/// The values that backward computes again instead of saving them. See [Note: selective recompute] in
/// runtime/ops/attention.h.
enum class Recompute : std::uint8_t { kNone, kSelective };

/// "none", "selective".
std::string_view name(Recompute recompute);

class Tape {
 public:
  explicit Tape(Recompute recompute = Recompute::kNone) : recompute_(recompute) {}
  /// For ops that support both modes.
  Recompute recompute() const { return recompute_; }

  /// A tracked leaf sharing the tensor's memory: an input whose gradient backward() returns.
  Tensor watch(const Tensor& input);
  /// A fresh id for the output of a node about to be recorded.
  ValueId new_value() { return num_values_++; }
  void record(std::unique_ptr<Node> node) { nodes_.push_back(std::move(node)); }
  /// Nodes that save value `id` as a SavedTensor keep `rebuilt` in its place.
  void save_as(ValueId id, std::shared_ptr<RebuiltTensor> rebuilt) { rebuilt_[id] = std::move(rebuilt); }
  /// Null: the value itself is saved.
  std::shared_ptr<RebuiltTensor> saved_as(ValueId id) const;

  /// Nodes whose only gradient of value `id` is a product pass the product to `collector`.
  void collect_products(ValueId id, std::shared_ptr<ProductCollector> collector) {
    collectors_[id] = std::move(collector);
  }
  /// Null: no collector.
  std::shared_ptr<ProductCollector> collector_of(ValueId id) const;

  /// Runs all nodes in reverse from `seeds`: outputs and their gradients. An empty gradient marks a scalar
  /// loss, whose gradient is 1. Returns the gradients of `inputs`, undefined where none arrived. The tape is
  /// empty afterwards.
  struct Seed {
    ValueId output = kNoValue;
    Tensor gradient;
  };
  std::vector<Tensor> backward(Context& ctx, std::vector<Seed> seeds, const std::vector<ValueId>& inputs);

  std::size_t num_nodes() const { return nodes_.size(); }
  /// Bytes of saved tensors; memory that several nodes share is counted once.
  std::int64_t saved_bytes() const;
  /// One line a node: name, saved shapes.
  std::string to_string() const;

 private:
  Recompute recompute_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::map<ValueId, std::shared_ptr<RebuiltTensor>> rebuilt_;
  std::map<ValueId, std::shared_ptr<ProductCollector>> collectors_;
  ValueId num_values_ = 0;
};

/// Adapts a plain struct with name(), saved() and backward(ctx, gradients, y) to a Node whose output is y.
template <class Backward>
class RecordedOp final : public Node {
 public:
  RecordedOp(ValueId y, Backward backward) : y_(y), backward_(std::move(backward)) {}
  std::string name() const override { return backward_.name(); }
  ValueId output() const override { return y_; }
  std::vector<Tensor> saved() const override { return backward_.saved(); }
  void backward(Context& ctx, Gradients& gradients) override { backward_.backward(ctx, gradients, y_); }

 private:
  ValueId y_;
  Backward backward_;
};

/// Puts `backward` on the tape and returns y with a new id. Returns y itself if nothing is recorded.
template <class Backward>
Tensor recorded(Context& ctx, const Tensor& y, Backward backward) {
  if (ctx.tape == nullptr) return y;
  const ValueId id = ctx.tape->new_value();
  ctx.tape->record(std::make_unique<RecordedOp<Backward>>(id, std::move(backward)));
  return y.with_id(id);
}

}  // namespace trireme
