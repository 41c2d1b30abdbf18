// Parser of the header of a safetensors file.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// A tensor as declared in a header; dtype in the format's spelling ("F32", "BF16", "I32", "U8", ...).
struct SafetensorsEntry {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
};

/// The format's limit; every reader of the format rejects larger headers.
inline constexpr std::uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;
inline constexpr std::string_view kSafetensorsMetadataKey = "__metadata__";

/// Bytes of one element; nullopt for a dtype outside the format.
std::optional<std::uint64_t> safetensors_dtype_bytes(std::string_view dtype);

/// Bytes of the tensor's data; nullopt if the dtype is unknown, an extent negative, or the product too large.
std::optional<std::uint64_t> safetensors_data_bytes(const SafetensorsEntry& entry);

struct SafetensorsHeader {
  struct Tensor : SafetensorsEntry {
    std::uint64_t begin = 0, end = 0;  // bytes of the data
  };

  std::vector<Tensor> tensors;  // in the order of the header
  std::map<std::string, std::string> metadata;
};

/// Takes time and memory linear in the text. Throws Error(kInvalidInput) with the error and the tensor. Does
/// not check dtypes and offsets.
SafetensorsHeader parse_safetensors_header(std::string_view text);

}  // namespace trireme
