#include "runtime/checkpoint/safetensors_source.h"

#include <fmt/ranges.h>

#include <set>
#include <string_view>

#include "runtime/base/error.h"

namespace trireme {
namespace {

// PyTorch counts the micro-batches that a batch norm saw; nothing here depends on it.
bool is_count(const SafetensorsTensor& tensor) {
  return tensor.name.ends_with(".num_batches_tracked");
}

}  // namespace

void SafetensorsSource::check(std::span<const SafetensorsEntry> wanted) const {
  const std::string path = place();
  std::set<std::string_view> names;
  for (const SafetensorsEntry& entry : wanted) {
    names.insert(entry.name);
    if (!file_.has(entry.name)) {
      throw TensorMismatch(
          entry.name, fmt::format("{} has no tensor '{}': it was saved from another model or optimizer", path,
                                  entry.name));
    }
    const SafetensorsTensor& saved = file_.tensor(entry.name);
    if (saved.dtype == entry.dtype && saved.shape == entry.shape) continue;
    throw TensorMismatch(
        entry.name,
        fmt::format("{}: tensor '{}' is {} [{}], this model needs {} [{}]: it was saved from another model",
                    path, entry.name, saved.dtype, fmt::join(saved.shape, ", "), entry.dtype,
                    fmt::join(entry.shape, ", ")));
  }
  for (const SafetensorsTensor& saved : file_.tensors()) {
    if (names.contains(saved.name) || is_count(saved) || new_head_.has(saved.name)) continue;
    throw TensorMismatch(saved.name,
                         fmt::format("{} holds the tensor '{}', which this model and optimizer do "
                                     "not have: it was saved from another model",
                                     path, saved.name));
  }
}

}  // namespace trireme
