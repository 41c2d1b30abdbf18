#include "runtime/checkpoint/safetensors_format.h"

namespace trireme {

std::optional<std::uint64_t> safetensors_dtype_bytes(std::string_view dtype) {
  struct Dtype {
    std::string_view name;
    std::uint64_t bytes;
  };
  static constexpr Dtype kDtypes[] = {
      {"F64", 8},     {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"F8_E4M3", 1},
      {"F8_E5M2", 1}, {"I64", 8}, {"I32", 4}, {"I16", 2},  {"I8", 1},
      {"U64", 8},     {"U32", 4}, {"U16", 2}, {"U8", 1},   {"BOOL", 1},
  };
  for (const auto& [name, bytes] : kDtypes) {
    if (name == dtype) return bytes;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> safetensors_data_bytes(const SafetensorsEntry& entry) {
  const auto elem_bytes = safetensors_dtype_bytes(entry.dtype);
  if (!elem_bytes) return std::nullopt;
  std::uint64_t bytes = *elem_bytes;
  for (const std::int64_t extent : entry.shape) {
    if (extent < 0) return std::nullopt;
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes)) return std::nullopt;
  }
  return bytes;
}

}  // namespace trireme
