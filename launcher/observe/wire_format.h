// Serializes protocol buffer messages: https://protobuf.dev/programming-guides/encoding/
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace trireme {

static_assert(std::endian::native == std::endian::little,
              "the format is little-endian, and numbers are copied without conversion");

template <class T>
void append_bytes(std::string& to, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  to.append(bytes, sizeof value);
}

inline void append_varint(std::string& to, std::uint64_t value) {
  constexpr std::uint64_t kLow = 0x7f, kMore = 0x80;
  for (; value > kLow; value >>= 7) to += static_cast<char>((value & kLow) | kMore);
  to += static_cast<char>(value);
}

inline void append_key(std::string& to, int field, int wire_type) {
  append_varint(to, static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(wire_type));
}

inline void append_integer(std::string& to, int field, std::int64_t value) {
  append_key(to, field, 0);
  append_varint(to, static_cast<std::uint64_t>(value));
}

inline void append_double(std::string& to, int field, double value) {
  append_key(to, field, 1);
  append_bytes(to, value);
}

/// A string or a serialized message.
inline void append_text(std::string& to, int field, std::string_view value) {
  append_key(to, field, 2);
  append_varint(to, value.size());
  to += value;
}

/// A repeated double, packed.
inline void append_doubles(std::string& to, int field, std::span<const double> values) {
  append_key(to, field, 2);
  append_varint(to, values.size_bytes());
  for (const double value : values) append_bytes(to, value);
}

inline void append_float(std::string& to, int field, float value) {
  append_key(to, field, 5);
  append_bytes(to, value);
}

}  // namespace trireme
