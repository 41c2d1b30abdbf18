#include "runtime/tensor.h"

#include "runtime/base/error.h"

namespace trireme {

Tensor::Tensor(std::shared_ptr<Allocator> allocator, const Shape& shape, DType dtype, MemoryCategory category,
               const char* origin)
    : buffer_(std::move(allocator), static_cast<std::size_t>(shape.num_elems() * trireme::size_bytes(dtype)),
              category, origin),
      shape_(shape),
      dtype_(dtype) {}

void* Tensor::address() const {
  if (!buffer_.defined()) return nullptr;
  return static_cast<std::byte*>(buffer_.data()) + offset_elems_ * trireme::size_bytes(dtype_);
}

Tensor Tensor::reshape(const Shape& shape) const {
  TRIREME_CHECK(shape.num_elems() == num_elems(), "cannot reshape {} to {}", shape_.to_string(),
                shape.to_string());
  return slice(0, shape);
}

Tensor Tensor::slice(std::int64_t offset, const Shape& shape) const {
  TRIREME_CHECK(offset >= 0 && offset + shape.num_elems() <= num_elems(),
                "slice of {} elements at {} leaves a tensor of shape {}", shape.num_elems(), offset,
                shape_.to_string());
  Tensor result = *this;
  result.offset_elems_ += offset;
  result.shape_ = shape;
  return result;
}

Tensor Tensor::with_id(ValueId id) const {
  Tensor result = *this;
  result.id_ = id;
  return result;
}

}  // namespace trireme
