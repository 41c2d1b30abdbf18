// Pieces of tensors as fp32, in which all kernels compute: fp32 tensors as they lie in memory, 16-bit ones
// through a buffer. So a kernel is written once, and for fp32 nothing is copied.
//
// [Note: conversions] A piece is read into buffers before any of it is written, so what the contract allows
// to alias in fp32 may alias in 16 bits.
#pragma once

#include <initializer_list>

#include "kernels/backend.h"
#include "kernels/cpu/numerics.h"

namespace trireme::cpu {

// Elements of a buffer on the stack: a few of them stay in the first cache.
inline constexpr std::int64_t kBuffer = 2048;

/// Throws Error(kUnsupported) naming `op` and the dtypes unless all defined views are of one of fp32, fp16,
/// bf16.
void check_one_float_type(const char* op, std::initializer_list<ConstTensorView> views);

/// Of an fp32, fp16 or bf16 tensor.
Element element_of(DType dtype);

/// x[first, first + count) as fp32, in `buffer` unless x is fp32; null where x is undefined.
const float* read(ConstTensorView x, std::int64_t first, std::int64_t count, float* buffer);

/// x[0, count) + by, in `buffer`, which may be x; x itself where `by` is 0.
const float* shifted(const float* x, float by, std::int64_t count, float* buffer);

/// The memory in which a kernel may leave y[first ...) for write(): in y itself if that is fp32, else in
/// `buffer`; null where y is undefined.
float* place(TensorView y, std::int64_t first, float* buffer);

/// y[first, first + count) = values, rounded; nothing where they lie there already.
void write(TensorView y, std::int64_t first, std::int64_t count, const float* values);

/// sum[i] += x[first + i] for i < count.
void add_to(float* sum, ConstTensorView x, std::int64_t first, std::int64_t count);

}  // namespace trireme::cpu
