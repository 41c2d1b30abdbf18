#include "runtime/ops/add.h"

#include "runtime/base/error.h"
#include "runtime/ops/cast.h"
#include "runtime/tape.h"

namespace trireme::ops {
namespace {

struct AddNode : Node {
  ValueId a = kNoValue, b = kNoValue, y = kNoValue;

  std::string name() const override { return "add"; }
  ValueId output() const override { return y; }
  std::vector<Tensor> saved() const override { return {}; }

  void backward(Context& ctx, Gradients& gradients) override {
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
  if (ctx.tape == nullptr) return y;

  auto node = std::make_unique<AddNode>();
  node->a = a.id();
  node->b = b.id();
  node->y = ctx.tape->new_value();
  const Tensor result = y.with_id(node->y);
  ctx.tape->record(std::move(node));
  return result;
}

}  // namespace trireme::ops
