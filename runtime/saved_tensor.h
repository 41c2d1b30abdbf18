// A tensor that a node saves for backward: the tensor itself, or the data to rebuild it from.
//
// An op that saves its input keeps a SavedTensor. The producer of that input may have registered a smaller
// form with the tape (Tape::save_as), such as a shard that is gathered again ([Note: sequence shards]).
#pragma once

#include <memory>

#include "runtime/tensor.h"

namespace trireme {

struct Context;

/// A tensor that is rebuilt in backward, shared by all nodes that save it.
class RebuiltTensor {
 public:
  virtual ~RebuiltTensor() = default;
  /// The tensor that is saved.
  virtual Tensor kept() const = 0;
  /// Registers a node that will call take() once.
  void add_reader() { ++readers_; }
  /// The tensor, built for the first reader and dropped after the last.
  Tensor take(Context& ctx);

 protected:
  /// Called once; afterwards nothing has to be kept.
  virtual Tensor build(Context& ctx) = 0;

 private:
  int readers_ = 0;
  Tensor built_;
};

class SavedTensor {
 public:
  SavedTensor() = default;
  /// For a node recorded on ctx.tape. `x` may have no id, and the tape may be null.
  SavedTensor(const Context& ctx, const Tensor& x);

  ValueId id() const { return id_; }
  const Shape& shape() const { return shape_; }
  /// The saved tensor, for Node::saved().
  Tensor kept() const { return rebuilt_ ? rebuilt_->kept() : tensor_; }
  /// Call once, in backward. May be collective over the tensor axis.
  Tensor take(Context& ctx);

 private:
  Tensor tensor_;
  std::shared_ptr<RebuiltTensor> rebuilt_;
  ValueId id_ = kNoValue;
  Shape shape_;
};

}  // namespace trireme
