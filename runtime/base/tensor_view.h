// Non-owning views of contiguous row-major memory, the arguments of kernels.
//
// A view on the meta device has an address, for comparing and passing on, but no elements.
#pragma once

#include <cstdint>

#include "runtime/base/dtype.h"
#include "runtime/base/shape.h"

namespace trireme {

/// The first address of the meta device. No process and no card maps addresses this high.
inline constexpr std::uintptr_t kFirstMetaAddress = std::uintptr_t{1} << 60;
inline bool is_meta_address(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) >= kFirstMetaAddress;
}

/// Throws Error(kInvalidInput): a tensor on the meta device has no elements.
[[noreturn]] void throw_no_values(DType dtype, const Shape& shape);

struct ConstTensorView {
  const void* data = nullptr;  // an address of any device
  DType dtype = DType::kFloat32;
  Shape shape;

  bool defined() const { return data != nullptr; }
  std::int64_t num_elems() const { return shape.num_elems(); }
  /// The elements. Throws Error(kInvalidInput) on the meta device.
  template <class T>
  const T* as() const {
    if (is_meta_address(data)) [[unlikely]]
      throw_no_values(dtype, shape);
    return static_cast<const T*>(data);
  }
};

struct TensorView {
  void* data = nullptr;  // an address of any device
  DType dtype = DType::kFloat32;
  Shape shape;

  bool defined() const { return data != nullptr; }
  std::int64_t num_elems() const { return shape.num_elems(); }
  /// The elements. Throws Error(kInvalidInput) on the meta device.
  template <class T>
  T* as() const {
    if (is_meta_address(data)) [[unlikely]]
      throw_no_values(dtype, shape);
    return static_cast<T*>(data);
  }
  operator ConstTensorView() const { return {data, dtype, shape}; }
};

}  // namespace trireme
