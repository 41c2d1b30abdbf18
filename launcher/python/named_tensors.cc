#include "launcher/python/named_tensors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

namespace trireme {

std::span<float> NamedFloats::all() const {
  std::size_t count = 1;
  for (const auto extent : entry.shape) count *= static_cast<std::size_t>(extent);
  return {values, count};
}

NamedTensors::NamedTensors(const std::vector<NamedFloats>& tensors) {
  for (const NamedFloats& tensor : tensors) tensors_.emplace(tensor.entry.name, &tensor);
}

void NamedTensors::check(std::span<const SafetensorsEntry> wanted) const {
  for (const SafetensorsEntry& entry : wanted) {
    const auto tensor = tensors_.find(entry.name);
    if (tensor == tensors_.end())
      throw TensorMismatch(entry.name, fmt::format("the state lacks the tensor '{}'", entry.name));
    const auto& shape = tensor->second->entry.shape;
    if (shape == entry.shape) continue;
    throw TensorMismatch(entry.name,
                         fmt::format("tensor '{}' has the shape [{}], the model's is [{}]", entry.name,
                                     fmt::join(shape, ", "), fmt::join(entry.shape, ", ")));
  }
  for (const auto& [name, tensor] : tensors_) {
    if (std::ranges::find(wanted, name, &SafetensorsEntry::name) == wanted.end())
      throw TensorMismatch(name, fmt::format("the model has no tensor '{}'", name));
  }
}

void NamedTensors::copy_floats(const std::string& name, std::uint64_t first, std::span<float> out) const {
  std::memcpy(out.data(), tensors_.at(name)->values + first, out.size_bytes());
}

}  // namespace trireme
