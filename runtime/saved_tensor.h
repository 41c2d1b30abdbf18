// What a node keeps of a tensor for its backward: the tensor, or something that it is built from again.
//
// An op that saves its input keeps a SavedTensor. Whoever gave it that input may have told the tape that
// there is a smaller way to keep it (Tape::save_as): a shard that is gathered again ([Note: sequence
// shards]).
#pragma once

#include <memory>

#include "runtime/tensor.h"

namespace trireme {

struct Context;

/// Kept once for all nodes that save it.
class RebuiltTensor {
 public:
  virtual ~RebuiltTensor() = default;
  /// What is kept.
  virtual Tensor kept() const = 0;
  /// Counts a node that will ask for the tensor once.
  void add_reader() { ++readers_; }
  /// The tensor, built for the first reader and dropped with the last.
  Tensor take(Context& ctx);

 protected:
  /// Called once; nothing needs to be kept from then on.
  virtual Tensor build(Context& ctx) = 0;

 private:
  int readers_ = 0;
  Tensor built_;
};

class SavedTensor {
 public:
  SavedTensor() = default;
  /// Of a node that is recorded on ctx.tape; `x` may have no id, or the tape be null.
  SavedTensor(const Context& ctx, const Tensor& x);

  ValueId id() const { return id_; }
  const Shape& shape() const { return shape_; }
  /// What is kept of it, for Node::saved().
  Tensor kept() const { return rebuilt_ ? rebuilt_->kept() : tensor_; }
  /// Once, in backward. May be collective over the tensor axis.
  Tensor take(Context& ctx);

 private:
  Tensor tensor_;
  std::shared_ptr<RebuiltTensor> rebuilt_;
  ValueId id_ = kNoValue;
  Shape shape_;
};

}  // namespace trireme
