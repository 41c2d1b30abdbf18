#include "kernels/cpu/convert.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "runtime/base/error.h"

namespace trireme::cpu {

void check_one_float_type(const char* op, std::initializer_list<ConstTensorView> views) {
  bool fits = true;
  std::string dtypes;
  const DType first = views.begin()->dtype;
  for (const ConstTensorView& view : views) {
    if (!view.defined()) continue;
    fits = fits && view.dtype == first;
    dtypes += fmt::format("{}{}", dtypes.empty() ? "" : ", ", name(view.dtype));
  }
  if (fits && (first == DType::kFloat32 || first == DType::kFloat16 || first == DType::kBFloat16)) return;
  throw Error(ErrorCode::kUnsupported, "{} on cpu wants tensors of one of fp32, fp16 and bf16, got {}", op,
              dtypes);
}

Element element_of(DType dtype) {
  return dtype == DType::kFloat32   ? Element::kFp32
         : dtype == DType::kFloat16 ? Element::kFp16
                                    : Element::kBf16;
}

const float* read(ConstTensorView x, std::int64_t first, std::int64_t count, float* buffer) {
  if (!x.defined()) return nullptr;
  if (x.dtype == DType::kFloat32) return x.as<float>() + first;
  numerics().cast->read(x.as<std::uint16_t>() + first, element_of(x.dtype), buffer, count);
  return buffer;
}

const float* shifted(const float* x, float by, std::int64_t count, float* buffer) {
  if (by == 0.0f) return x;
  for (std::int64_t i = 0; i < count; ++i) buffer[i] = x[i] + by;
  return buffer;
}

float* place(TensorView y, std::int64_t first, float* buffer) {
  if (!y.defined()) return nullptr;
  return y.dtype == DType::kFloat32 ? y.as<float>() + first : buffer;
}

void write(TensorView y, std::int64_t first, std::int64_t count, const float* values) {
  if (!y.defined()) return;
  if (y.dtype != DType::kFloat32) {
    numerics().cast->write(values, element_of(y.dtype), y.as<std::uint16_t>() + first, count);
  } else if (float* to = y.as<float>() + first; to != values) {
    std::memcpy(to, values, static_cast<std::size_t>(count) * sizeof(float));
  }
}

void add_to(float* sum, ConstTensorView x, std::int64_t first, std::int64_t count) {
  const std::int64_t piece = x.dtype == DType::kFloat32 ? count : kBuffer;
  float buffer[kBuffer];
  for (std::int64_t i = 0; i < count; i += piece) {
    const std::int64_t n = std::min(piece, count - i);
    numerics().elementwise->add(sum + i, read(x, first + i, n, buffer), sum + i, n);
  }
}

}  // namespace trireme::cpu
