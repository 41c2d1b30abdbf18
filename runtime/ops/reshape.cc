#include "runtime/ops/reshape.h"

#include "runtime/tape.h"

namespace trireme::ops {
namespace {

struct ReshapeBackward {
  Shape shape;  // of x
  ValueId x = kNoValue;

  std::string name() const { return "reshape"; }
  std::vector<Tensor> saved() const { return {}; }

  void backward(Context& ctx, Gradients& gradients, ValueId y) {
    gradients.add(ctx, x, gradients.take(y).reshape(shape));
  }
};

}  // namespace

Tensor reshape(Context& ctx, const Tensor& x, const Shape& shape) {
  return recorded(ctx, x.reshape(shape).detach(), ReshapeBackward{.shape = x.shape(), .x = x.id()});
}

}  // namespace trireme::ops
