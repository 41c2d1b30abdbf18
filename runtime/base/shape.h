// Extents of a contiguous row-major tensor: a small value type without heap memory.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace trireme {

class Shape {
 public:
  static constexpr int kMaxRank = 6;
  /// Maximum number of elements, so that byte counts cannot overflow.
  static constexpr std::int64_t kMaxElems = std::int64_t{1} << 56;

  Shape() = default;  // rank 0: a scalar, one element
  Shape(std::initializer_list<std::int64_t> dims);

  int rank() const { return rank_; }
  /// Extent of dim `i`; negative `i` counts from the end. Throws Error when out of range.
  std::int64_t dim(int i) const;
  std::int64_t operator[](int i) const { return dim(i); }
  /// Number of elements; 1 for a scalar. Throws Error above kMaxElems.
  std::int64_t num_elems() const;
  /// Number of elements of all dims except the last; 1 for rank <= 1.
  std::int64_t num_rows() const;
  /// [extent, *this]: the shape of a batch of samples of this shape. Throws above kMaxRank.
  Shape batched(std::int64_t extent) const;
  /// The same shape with another last extent.
  Shape with_last(std::int64_t extent) const;

  bool operator==(const Shape& other) const = default;
  /// "[4, 512, 768]".
  std::string to_string() const;

 private:
  std::array<std::int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

}  // namespace trireme
