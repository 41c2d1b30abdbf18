#include "runtime/checkpoint/merged_model.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "runtime/base/error.h"
#include "runtime/checkpoint/float_data.h"

namespace trireme {
namespace {

void check_shape(const SafetensorsReader& file, const std::string& name, std::vector<std::int64_t> wanted) {
  const SafetensorsTensor& tensor = file.tensor(name);
  TRIREME_CHECK(tensor.dtype == "F32" && tensor.shape == wanted,
                "{}: tensor '{}' is {} [{}], an adapter needs F32 [{}]", file.path().string(), name,
                tensor.dtype, fmt::join(tensor.shape, ", "), fmt::join(wanted, ", "));
}

std::vector<double> read_all(const SafetensorsTensor& tensor, double factor) {
  std::vector<float> floats(tensor.num_elems);
  copy_as_floats(tensor, 0, floats);
  std::vector<double> values(floats.begin(), floats.end());
  for (double& value : values) value *= factor;
  return values;
}

}  // namespace

MergedModel::MergedModel(const SafetensorsReader& file, const SavedAdapters& adapters)
    : file_(file), rank_(static_cast<std::uint64_t>(adapters.rank)), scale_(adapters.scale) {
  for (const SavedAdapter& layer : adapters.layers) {
    const std::vector<std::int64_t>& shape = file.tensor(layer.weight).shape;
    TRIREME_CHECK(shape.size() == 2, "{}: tensor '{}' of [{}] has an adapter, and is no matrix",
                  file.path().string(), layer.weight, fmt::join(shape, ", "));
    check_shape(file, layer.weight, shape);
    check_shape(file, layer.a, {adapters.rank, shape[1]});
    check_shape(file, layer.b, {shape[0], adapters.rank});
    adapters_[layer.weight] = layer;
  }
}

std::vector<SafetensorsEntry> MergedModel::entries() const {
  std::vector<SafetensorsEntry> entries;
  for (const SafetensorsTensor& tensor : file_.tensors()) {
    const bool is_adapter = std::ranges::any_of(adapters_, [&](const auto& adapter) {
      return tensor.name == adapter.second.a || tensor.name == adapter.second.b;
    });
    if (!is_adapter) entries.push_back(tensor);
  }
  return entries;
}

const MergedModel::Factors* MergedModel::factors_of(const std::string& weight) const {
  const auto adapter = adapters_.find(weight);
  if (adapter == adapters_.end()) return nullptr;
  if (last_ == weight) return &factors_;
  const std::vector<std::int64_t>& shape = file_.tensor(weight).shape;
  factors_ = {.rows = static_cast<std::uint64_t>(shape[0]),
              .cols = static_cast<std::uint64_t>(shape[1]),
              .a = read_all(file_.tensor(adapter->second.a), 1.0),
              .scaled_b = read_all(file_.tensor(adapter->second.b), scale_)};
  last_ = weight;
  return &factors_;
}

void MergedModel::copy_floats(const SafetensorsTensor& tensor, std::uint64_t first,
                              std::span<float> out) const {
  copy_as_floats(tensor, first, out);
  const Factors* factors = factors_of(tensor.name);
  if (factors == nullptr) return;
  std::vector<double> sum;
  for (std::uint64_t at = 0; at < out.size();) {  // one row, or the requested part of it
    const std::uint64_t row = (first + at) / factors->cols, col = (first + at) % factors->cols;
    const std::uint64_t count = std::min<std::uint64_t>(factors->cols - col, out.size() - at);
    sum.assign(out.begin() + static_cast<std::ptrdiff_t>(at),
               out.begin() + static_cast<std::ptrdiff_t>(at + count));
    for (std::uint64_t r = 0; r < rank_; ++r) {
      const double b = factors->scaled_b[row * rank_ + r];
      const double* a = factors->a.data() + r * factors->cols + col;
      for (std::uint64_t i = 0; i < count; ++i) sum[i] += b * a[i];
    }
    for (std::uint64_t i = 0; i < count; ++i) out[at + i] = static_cast<float>(sum[i]);
    at += count;
  }
}

}  // namespace trireme
