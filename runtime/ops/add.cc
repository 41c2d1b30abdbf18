#include "runtime/ops/add.h"

#include "runtime/base/error.h"
#include "runtime/ops/cast.h"
#include "runtime/tape.h"

namespace trireme::ops {
namespace {

struct AddBackward {
  ValueId a = kNoValue, b = kNoValue;

  std::string name() const { return "add"; }
  std::vector<Tensor> saved() const { return {}; }

  void backward(Context& ctx, Gradients& gradients, ValueId y) {
    if (gradients.is_unit(y)) {  // a sum of two losses
      gradients.seed_unit(b);
      gradients.seed_unit(a);
      return;
    }
    const Tensor dy = gradients.take(y);
    gradients.add(ctx, b, dy);
    gradients.add(ctx, a, dy);
  }
};

}  // namespace

Tensor add(Context& ctx, const Tensor& left, const Tensor& right) {
  TRIREME_CHECK(left.shape() == right.shape(), "add: {} {} and {} {} differ", name(left.dtype()),
                left.shape().to_string(), name(right.dtype()), right.shape().to_string());
  const DType dtype = ctx.precision.dtype_of(OpKind::kAdd, wider(left.dtype(), right.dtype()));
  const Tensor a = cast(ctx, left, dtype), b = cast(ctx, right, dtype);
  const Tensor y = ctx.empty(a.shape(), a.dtype());
  ctx.run(AddArgs{.a = a, .b = b, .out = y});
  return recorded(ctx, y, AddBackward{.a = a.id(), .b = b.id()});
}

}  // namespace trireme::ops
