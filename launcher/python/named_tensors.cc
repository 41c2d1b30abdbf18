#include "launcher/python/named_tensors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

namespace trireme {

NamedTensors::NamedTensors(const std::vector<NamedFloats>& tensors) {
  for (const NamedFloats& tensor : tensors) {
    const auto& [name, dtype, shape] = tensor.entry;
    const auto elems = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
    const std::uint64_t end = tensor.first + tensor.values.size();
    TRIREME_CHECK(end <= static_cast<std::uint64_t>(elems), "a shard of '{}' ends at element {} of {}", name,
                  end, elems);
    pieces_[name].push_back(&tensor);
  }
}

void NamedTensors::check(std::span<const SafetensorsEntry> wanted) const {
  for (const SafetensorsEntry& entry : wanted) {
    const auto pieces = pieces_.find(entry.name);
    if (pieces == pieces_.end())
      throw TensorMismatch(entry.name, fmt::format("the state lacks the tensor '{}'", entry.name));
    for (const NamedFloats* piece : pieces->second) {
      if (piece->entry.shape == entry.shape) continue;
      throw TensorMismatch(entry.name,
                           fmt::format("tensor '{}' has the shape [{}], the model's is [{}]", entry.name,
                                       fmt::join(piece->entry.shape, ", "), fmt::join(entry.shape, ", ")));
    }
  }
  for (const auto& [name, pieces] : pieces_) {
    if (std::ranges::find(wanted, name, &SafetensorsEntry::name) == wanted.end())
      throw TensorMismatch(name, fmt::format("the model has no tensor '{}'", name));
  }
}

void NamedTensors::copy_floats(const std::string& name, std::uint64_t first, std::span<float> out) const {
  const std::vector<const NamedFloats*>& pieces = pieces_.at(name);
  while (!out.empty()) {
    const auto piece = std::ranges::find_if(pieces, [first](const NamedFloats* p) {
      return p->first <= first && first < p->first + p->values.size();
    });
    if (piece == pieces.end())
      throw TensorMismatch(name, fmt::format("the state lacks element {} of '{}', which this rank needs: "
                                             "load shards into a session of the same layout",
                                             first, name));
    const std::span<float> from = (*piece)->values.subspan(first - (*piece)->first);
    const std::size_t count = std::min(from.size(), out.size());
    std::ranges::copy(from.first(count), out.begin());
    out = out.subspan(count);
    first += count;
  }
}

}  // namespace trireme
