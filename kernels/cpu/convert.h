// Reads and writes pieces of tensors as fp32, in which all kernels compute. fp32 tensors are accessed in
// place, 16-bit ones through a buffer. So each kernel is written once, and fp32 costs no copy.
//
// [Note: conversions] A kernel reads a piece into buffers before it writes any of it. So tensors that may
// alias in fp32 may also alias in 16 bits.
#pragma once

#include <initializer_list>

#include "kernels/backend.h"
#include "kernels/cpu/numerics.h"

namespace trireme::cpu {

// Elements of a stack buffer, small enough for several buffers in the L1 cache.
inline constexpr std::int64_t kBuffer = 2048;

/// Throws Error(kUnsupported) naming `op` and the dtypes unless all defined views share one dtype of fp32,
/// fp16, bf16.
void check_one_float_type(const char* op, std::initializer_list<ConstTensorView> views);

/// The Element of an fp32, fp16 or bf16 dtype.
Element element_of(DType dtype);

/// x[first, first + count) as fp32, in `buffer` unless x is fp32; null where x is undefined.
const float* read(ConstTensorView x, std::int64_t first, std::int64_t count, float* buffer);

/// x[0, count) + by, in `buffer`, which may be x. Returns x itself if `by` is 0.
const float* shifted(const float* x, float by, std::int64_t count, float* buffer);

/// Destination for the values of y[first ...) before write(): y itself if y is fp32, else `buffer`. Null
/// where y is undefined.
float* place(TensorView y, std::int64_t first, float* buffer);

/// y[first, first + count) = values, rounded. Does nothing if `values` already points there.
void write(TensorView y, std::int64_t first, std::int64_t count, const float* values);

/// sum[i] += x[first + i] for i < count.
void add_to(float* sum, ConstTensorView x, std::int64_t first, std::int64_t count);

}  // namespace trireme::cpu
