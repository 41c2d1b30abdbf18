// Facts that the safetensors reader and writer share. The format: the header's length as a little-endian
// uint64, the header as JSON {name: {dtype, shape, data_offsets: [begin, end]}, "__metadata__": {string:
// string}}, then the data, to which the offsets are relative.
#pragma once

#include <cstdint>
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

}  // namespace trireme
