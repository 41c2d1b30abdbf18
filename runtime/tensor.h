// A contiguous row-major tensor: a value type over a reference-counted buffer. Copies share memory.
//
// Views are always contiguous: a range of the flat elements under another shape. A tensor that takes part in
// automatic differentiation carries an id from its tape; the id means nothing on another tape.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/base/buffer.h"
#include "runtime/base/tensor_view.h"

namespace trireme {

/// Identifies a value on a Tape. kNoValue: not tracked.
using ValueId = std::int32_t;
inline constexpr ValueId kNoValue = -1;

class Tensor {
 public:
  Tensor() = default;
  /// Uninitialised memory. `origin` as in Allocator::allocate.
  Tensor(std::shared_ptr<Allocator> allocator, const Shape& shape, DType dtype, MemoryCategory category,
         const char* origin = "");

  bool defined() const { return buffer_.defined(); }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  std::int64_t num_elems() const { return shape_.num_elems(); }
  std::int64_t size_bytes() const { return num_elems() * trireme::size_bytes(dtype_); }
  Device device() const { return buffer_.allocator().device(); }
  /// True when no other tensor shares the memory.
  bool unique() const { return buffer_.use_count() == 1; }
  /// Number of tensors that share the memory, this one included.
  long use_count() const { return buffer_.use_count(); }

  /// The elements, in the device's memory; nullptr: undefined. Throws Error(kInvalidInput) on the meta
  /// device, which holds no values.
  void* data() const {
    void* const first = address();
    if (is_meta_address(first)) [[unlikely]]
      throw_no_values(dtype_, shape_);
    return first;
  }
  /// The address of the elements, also on the meta device: for comparing and passing on, never for reading or
  /// writing.
  void* address() const;
  TensorView view() const { return {address(), dtype_, shape_}; }
  ConstTensorView const_view() const { return {address(), dtype_, shape_}; }
  /// [..., C] as rows [M, C].
  TensorView rows() const { return {address(), dtype_, {shape_.num_rows(), shape_.dim(-1)}}; }
  operator TensorView() const { return view(); }
  operator ConstTensorView() const { return const_view(); }

  /// The same elements under another shape. Throws when the element counts differ.
  Tensor reshape(const Shape& shape) const;
  /// Elements [offset, offset + shape.num_elems()) of the flat tensor. Throws when out of range.
  Tensor slice(std::int64_t offset, const Shape& shape) const;

  ValueId id() const { return id_; }
  Tensor with_id(ValueId id) const;
  /// The same memory, without an id.
  Tensor detach() const { return with_id(kNoValue); }

 private:
  Buffer buffer_;
  std::int64_t offset_elems_ = 0;
  Shape shape_;
  DType dtype_ = DType::kFloat32;
  ValueId id_ = kNoValue;
};

}  // namespace trireme
