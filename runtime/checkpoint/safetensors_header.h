// The header of a safetensors file, as text, to what it declares.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// A tensor as a header declares it; dtype as the format spells it ("F32", "BF16", "I32", "U8", ...).
struct SafetensorsEntry {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
};

/// Headers above this are refused by every reader of the format.
inline constexpr std::uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;
inline constexpr std::string_view kSafetensorsMetadataKey = "__metadata__";

/// Bytes of one element; nullopt for a dtype that the format does not have.
std::optional<std::uint64_t> safetensors_dtype_bytes(std::string_view dtype);

/// Bytes of the tensor's data; nullopt when the dtype is unknown, an extent negative, or the product too
/// large.
std::optional<std::uint64_t> safetensors_data_bytes(const SafetensorsEntry& entry);

struct SafetensorsHeader {
  struct Tensor : SafetensorsEntry {
    std::uint64_t begin = 0, end = 0;  // bytes of the data
  };

  std::vector<Tensor> tensors;  // in the order of the text
  std::map<std::string, std::string> metadata;
};

/// In time and memory that grow with the text, whatever it holds. Throws Error(kInvalidInput) saying what is
/// wrong with it and with which tensor; dtypes and offsets are taken as they are.
SafetensorsHeader parse_safetensors_header(std::string_view text);

}  // namespace trireme
