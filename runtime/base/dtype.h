// Element types of tensors. The 8-bit floats are codes with a separate scale: [Note: fp8] in
// runtime/base/fp8.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace trireme {

enum class DType : std::uint8_t { kFloat32, kFloat16, kBFloat16, kInt32, kUInt8, kE4m3, kE5m2 };

/// Bytes of one element.
constexpr std::int64_t size_bytes(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kFloat16:
    case DType::kBFloat16:
      return 2;
    case DType::kUInt8:
    case DType::kE4m3:
    case DType::kE5m2:
      return 1;
  }
  return 0;
}

constexpr std::string_view name(DType dtype) {
  constexpr std::string_view kNames[] = {"fp32", "fp16", "bf16", "int32", "uint8", "e4m3", "e5m2"};
  return kNames[static_cast<std::size_t>(dtype)];
}

}  // namespace trireme
