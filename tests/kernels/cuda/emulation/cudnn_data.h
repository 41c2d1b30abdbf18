// The contents of the emulated cuDNN's descriptors.
#pragma once

#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "tests/kernels/cuda/emulation/cudnn_emulation.h"

namespace emulation {

// The contents of a descriptor live as long as others made from it, as in the real library.
struct DnnData {
  cudnnBackendDescriptorType_t type;
  bool is_final = false;
  std::map<cudnnBackendAttributeName_t, std::vector<std::byte>> values;
  std::map<cudnnBackendAttributeName_t, std::vector<std::shared_ptr<const DnnData>>> parts;
  DnnEngine engine;                                  // of an engine
  std::vector<std::shared_ptr<const DnnData>> made;  // of heuristics: configurations

  template <class T>
  T get(cudnnBackendAttributeName_t name, std::size_t index = 0) const {
    T value{};
    const auto found = values.find(name);
    if (found != values.end() && found->second.size() >= (index + 1) * sizeof(T)) {
      std::memcpy(&value, found->second.data() + index * sizeof(T), sizeof(T));
    }
    return value;
  }
  const DnnData* part(cudnnBackendAttributeName_t name) const {
    const auto found = parts.find(name);
    return found == parts.end() ? nullptr : found->second.front().get();
  }
};

/// Reads an operation's descriptor.
DnnOperation operation_of(const DnnData& data);
/// True if a tensor has extents, or if the extents of an operation are consistent.
bool is_sound(const DnnData& data);

}  // namespace emulation
