// Reverse-mode differentiation: a list of named nodes, recorded by ops while a block runs forward.
//
// The backward of an op is beside its forward, as a struct that recorded() puts on the tape. It saves the
// tensors its backward needs (their bytes can be counted) and names parameters by ParamRef. Backward runs the
// nodes in reverse and frees each as soon as it has run. Several gradients of one value are added in that
// order, so the sum is the same on every run.
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
  /// True for a loss whose gradient is the number 1, for which no tensor exists.
  bool is_unit(ValueId id) const;
  void seed_unit(ValueId id);
  /// Removes and returns the gradient; throws if there is none.
  Tensor take(ValueId id);
  /// Adds `gradient` to what is there; ignored for kNoValue. Memory that is not shared may be kept and
  /// written.
  void add(Context& ctx, ValueId id, Tensor gradient);

 private:
  struct Slot {
    Tensor tensor;
    bool unit = false;
  };
  std::vector<Slot> slots_;
};

class Node {
 public:
  virtual ~Node() = default;
  virtual std::string name() const = 0;
  /// The value whose gradient backward consumes; without a gradient there, backward is skipped.
  virtual ValueId output() const = 0;
  /// Tensors kept for backward.
  virtual std::vector<Tensor> saved() const = 0;
  /// See [Note: backward in two parts] for gradients of parameters.
  virtual void backward(Context& ctx, Gradients& gradients) = 0;
};

/// dy W, whose sum over the columns of dy is made in groups: see ProductSumArgs.
struct ProductGradient {
  Tensor dy;      // [..., N]
  Tensor weight;  // [N, K]
  MathMode math = MathMode::kFp32;
  int groups = 1;
};

/// Takes gradients of values as products that are not made yet, to make them with those of other values.
class ProductCollector {
 public:
  virtual ~ProductCollector() = default;
  virtual void collect(Context& ctx, Gradients& gradients, ProductGradient product) = 0;
};

/// A value that is not kept for backward: see saved_tensor.h.
class RebuiltTensor;

/// What backward runs again in place of keeping it. See [Note: selective recompute] in
/// runtime/ops/attention.h.
enum class Recompute : std::uint8_t { kNone, kSelective };

/// "none", "selective".
std::string_view name(Recompute recompute);

class Tape {
 public:
  explicit Tape(Recompute recompute = Recompute::kNone) : recompute_(recompute) {}
  /// For ops that can do either.
  Recompute recompute() const { return recompute_; }

  /// A tracked leaf sharing the tensor's memory: an input whose gradient backward() returns.
  Tensor watch(const Tensor& input);
  /// A fresh id for the output of a node about to be recorded.
  ValueId new_value() { return num_values_++; }
  void record(std::unique_ptr<Node> node) { nodes_.push_back(std::move(node)); }
  /// Nodes that save value `id` as a SavedTensor keep `rebuilt` in its place.
  void save_as(ValueId id, std::shared_ptr<RebuiltTensor> rebuilt) { rebuilt_[id] = std::move(rebuilt); }
  /// Null: the value is kept as it is.
  std::shared_ptr<RebuiltTensor> saved_as(ValueId id) const;

  /// Nodes whose gradient of value `id` is a product hand it to `collector`, where that is all they add to
  /// it.
  void collect_products(ValueId id, std::shared_ptr<ProductCollector> collector) {
    collectors_[id] = std::move(collector);
  }
  /// Null: there is none.
  std::shared_ptr<ProductCollector> collector_of(ValueId id) const;

  /// Runs all nodes in reverse from `output_gradients` (outputs and their gradients in pairs; a scalar loss
  /// has an empty gradient tensor: its seed is 1). Returns the gradients of `inputs`, undefined where none
  /// arrived. The tape is empty afterwards.
  struct Seed {
    ValueId output = kNoValue;
    Tensor gradient;
  };
  std::vector<Tensor> backward(Context& ctx, std::vector<Seed> seeds, const std::vector<ValueId>& inputs);

  std::size_t num_nodes() const { return nodes_.size(); }
  /// Bytes of saved tensors, memory shared by several nodes counted once.
  std::int64_t saved_bytes() const;
  /// A line a node: name, saved shapes.
  std::string to_string() const;

 private:
  Recompute recompute_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::map<ValueId, std::shared_ptr<RebuiltTensor>> rebuilt_;
  std::map<ValueId, std::shared_ptr<ProductCollector>> collectors_;
  ValueId num_values_ = 0;
};

/// The record of an op on the tape, as a plain struct: name(), saved() and backward(ctx, gradients, y) as of
/// a Node whose output is y.
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

/// y as a value of the tape whose gradient `backward` consumes; y itself where nothing is recorded.
template <class Backward>
Tensor recorded(Context& ctx, const Tensor& y, Backward backward) {
  if (ctx.tape == nullptr) return y;
  const ValueId id = ctx.tape->new_value();
  ctx.tape->record(std::make_unique<RecordedOp<Backward>>(id, std::move(backward)));
  return y.with_id(id);
}

}  // namespace trireme
