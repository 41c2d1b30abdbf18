// Names a device: which kind of backend, and which card of that kind.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

enum class DeviceType : std::uint8_t {
  kCpu,
  kCuda,
  kMeta,  // counts bytes and checks shapes, computes nothing, allocates nothing
};

constexpr std::string_view name(DeviceType type) {
  switch (type) {
    case DeviceType::kCpu:
      return "cpu";
    case DeviceType::kCuda:
      return "cuda";
    case DeviceType::kMeta:
      return "meta";
  }
  return "?";
}

struct Device {
  DeviceType type = DeviceType::kCpu;
  int index = 0;
  bool operator==(const Device&) const = default;
};

inline std::string to_string(Device device) {
  std::string text(name(device.type));
  if (device.type == DeviceType::kCuda) text += ":" + std::to_string(device.index);
  return text;
}

}  // namespace trireme
