// A device: the type of backend, and the index of the card.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

enum class DeviceType : std::uint8_t {
  kCpu,
  kCuda,
  kMeta,  // counts bytes and checks shapes, computes nothing, allocates nothing
};

/// Properties of a device type, available also when the build lacks its backend.
struct DeviceTraits {
  std::string_view name;
  bool host_memory;  // its memory is host memory, or counted as host memory
  bool computes;     // false: results are never read
  bool numbered;     // a machine may have several, distinguished by Device::index
};

inline constexpr DeviceTraits kDeviceTraits[] = {
    {.name = "cpu", .host_memory = true, .computes = true, .numbered = false},
    {.name = "cuda", .host_memory = false, .computes = true, .numbered = true},
    {.name = "meta", .host_memory = true, .computes = false, .numbered = false},
};

constexpr const DeviceTraits& traits(DeviceType type) {
  return kDeviceTraits[static_cast<std::size_t>(type)];
}
constexpr std::string_view name(DeviceType type) {
  return traits(type).name;
}

struct Device {
  DeviceType type = DeviceType::kCpu;
  int index = 0;
  bool operator==(const Device&) const = default;
};

inline std::string to_string(Device device) {
  std::string text(name(device.type));
  if (traits(device.type).numbered) text.append(1, ':').append(std::to_string(device.index));
  return text;
}

}  // namespace trireme
