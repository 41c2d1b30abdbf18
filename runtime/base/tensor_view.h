// Non-owning views of contiguous row-major memory: what kernels see.
#pragma once

#include "runtime/base/dtype.h"
#include "runtime/base/shape.h"

namespace trireme {

struct ConstTensorView {
  const void* data = nullptr;
  DType dtype = DType::kFloat32;
  Shape shape;

  bool defined() const { return data != nullptr; }
  std::int64_t num_elems() const { return shape.num_elems(); }
  template <class T>
  const T* as() const {
    return static_cast<const T*>(data);
  }
};

struct TensorView {
  void* data = nullptr;
  DType dtype = DType::kFloat32;
  Shape shape;

  bool defined() const { return data != nullptr; }
  std::int64_t num_elems() const { return shape.num_elems(); }
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
  operator ConstTensorView() const { return {data, dtype, shape}; }
};

}  // namespace trireme
