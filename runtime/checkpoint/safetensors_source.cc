#include "runtime/checkpoint/safetensors_source.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "runtime/base/error.h"

namespace trireme {
namespace {

// PyTorch's batch counter of a batch norm; nothing here uses it.
bool is_count(const std::string& name) {
  return name.ends_with(".num_batches_tracked");
}

}  // namespace

SafetensorsSource::SafetensorsSource(const std::filesystem::path& file, NewHead new_head, Names names)
    : file_(file), new_head_(std::move(new_head)) {
  for (const SafetensorsTensor& tensor : file_.tensors()) {
    names_.add(tensor.name, names == Names::kPlain ? plain_tensor_name(tensor.name, changes_) : tensor.name,
               place());
  }
}

bool SafetensorsSource::is_new(const std::string& name) const {
  if (!new_head_.has(name)) return false;
  if (new_head_.when == NewHead::When::kAlways) return true;
  // If the file has part of the layer, the file is damaged and the head is not new.
  const std::string layer = name.substr(0, name.rfind('.') + 1);
  return std::ranges::none_of(names_.all(),
                              [&](const auto& entry) { return entry.first.starts_with(layer); });
}

void SafetensorsSource::check(std::span<const SafetensorsEntry> wanted) const {
  const std::string path = place();
  std::set<std::string_view> names;
  for (const SafetensorsEntry& entry : wanted) {
    names.insert(entry.name);
    const std::string* stored_name = names_.find(entry.name);
    if (stored_name == nullptr) {
      throw TensorMismatch(
          entry.name, fmt::format("{} has no tensor '{}': it was saved from another model or optimizer", path,
                                  entry.name));
    }
    const SafetensorsTensor& saved = file_.tensor(*stored_name);
    if (saved.dtype == entry.dtype && saved.shape == entry.shape) continue;
    throw TensorMismatch(
        entry.name,
        fmt::format("{}: tensor '{}' is {} [{}], this model needs {} [{}]: it was saved from another model",
                    path, saved.name, saved.dtype, fmt::join(saved.shape, ", "), entry.dtype,
                    fmt::join(entry.shape, ", ")));
  }
  for (const auto& [plain, stored] : names_.all()) {
    if (names.contains(plain) || is_count(plain) || new_head_.has(plain)) continue;
    throw TensorMismatch(plain, fmt::format("{} holds the tensor '{}', which this model and optimizer do "
                                            "not have: it was saved from another model",
                                            path, stored));
  }
}

}  // namespace trireme
