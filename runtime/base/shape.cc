#include "runtime/base/shape.h"

#include "runtime/base/error.h"

namespace trireme {

Shape::Shape(std::initializer_list<std::int64_t> dims) {
  TRIREME_CHECK(dims.size() <= kMaxRank, "shape has {} dims, at most {} are supported", dims.size(),
                kMaxRank);
  for (const std::int64_t extent : dims) {
    TRIREME_CHECK(extent >= 0, "shape has a negative extent {}", extent);
    dims_[rank_++] = extent;
  }
}

std::int64_t Shape::dim(int i) const {
  const int index = i < 0 ? i + rank_ : i;
  TRIREME_CHECK(index >= 0 && index < rank_, "dim {} of shape {} does not exist", i, to_string());
  return dims_[index];
}

std::int64_t Shape::num_elems() const {
  std::int64_t product = 1;
  for (int i = 0; i < rank_; ++i) {
    const bool overflows = __builtin_mul_overflow(product, dims_[i], &product) || product > kMaxElems;
    TRIREME_CHECK(!overflows, "a tensor of shape {} has more elements than any machine can hold",
                  to_string());
  }
  return product;
}

std::int64_t Shape::num_rows() const {
  std::int64_t product = 1;
  for (int i = 0; i + 1 < rank_; ++i) product *= dims_[i];
  return product;
}

Shape Shape::batched(std::int64_t extent) const {
  TRIREME_CHECK(rank_ < kMaxRank && extent >= 0, "cannot batch {} samples of shape {}", extent, to_string());
  Shape result;
  result.rank_ = rank_ + 1;
  result.dims_[0] = extent;
  for (int i = 0; i < rank_; ++i) result.dims_[i + 1] = dims_[i];
  return result;
}

Shape Shape::with_last(std::int64_t extent) const {
  TRIREME_CHECK(rank_ >= 1 && extent >= 0, "a scalar has no last dim to set to {}", extent);
  Shape result = *this;
  result.dims_[rank_ - 1] = extent;
  return result;
}

std::string Shape::to_string() const {
  std::string text = "[";
  for (int i = 0; i < rank_; ++i) text += (i ? ", " : "") + std::to_string(dims_[i]);
  return text + "]";
}

}  // namespace trireme
