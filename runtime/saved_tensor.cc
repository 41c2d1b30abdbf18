#include "runtime/saved_tensor.h"

#include <utility>

#include "runtime/base/error.h"
#include "runtime/tape.h"

namespace trireme {

Tensor RebuiltTensor::take(Context& ctx) {
  TRIREME_CHECK(readers_ > 0, "a saved tensor {} is asked for more often than it was saved",
                built_.defined() ? built_.shape().to_string() : "");
  if (!built_.defined()) built_ = build(ctx);
  return --readers_ == 0 ? std::exchange(built_, Tensor()) : built_;
}

SavedTensor::SavedTensor(const Context& ctx, const Tensor& x)
    : rebuilt_(ctx.tape != nullptr ? ctx.tape->saved_as(x.id()) : nullptr), id_(x.id()), shape_(x.shape()) {
  if (rebuilt_ != nullptr) {
    rebuilt_->add_reader();
  } else if (ctx.tape != nullptr) {
    tensor_ = x;
  }
}

Tensor SavedTensor::take(Context& ctx) {
  return rebuilt_ != nullptr ? rebuilt_->take(ctx) : tensor_;
}

}  // namespace trireme
