#include "runtime/checkpoint/hf_source.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/checkpoint/float_data.h"
#include "runtime/checkpoint/unused_tensors.h"

namespace trireme {
namespace {

std::int64_t num_elems(const std::vector<std::int64_t>& shape) {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) product *= extent;
  return product;
}

/// The shape of the stacked parts.
std::vector<std::int64_t> stacked_shape(const HfTensor& tensor) {
  std::vector<std::int64_t> stacked;
  for (const HfPart& part : tensor.parts) {
    std::vector<std::int64_t> shape = part.shape;
    if (part.transposed) std::swap(shape[0], shape[1]);
    if (!stacked.empty()) shape[0] += stacked[0];
    stacked = std::move(shape);
  }
  return stacked;
}

/// Elements [first, first + out.size()) of the transpose of `stored`, a matrix [in, out]. Copies strips of
/// its columns, so that each visit to a page of the file reads more than one number.
void copy_transposed(const SafetensorsTensor& stored, std::int64_t first, std::span<float> out) {
  constexpr std::int64_t kStrip = 64;
  const std::int64_t rows = stored.shape[1], cols = stored.shape[0];  // of the result
  const std::int64_t end = first + static_cast<std::int64_t>(out.size());
  std::array<float, kStrip> strip;
  for (std::int64_t row = first / cols; row * cols < end; row += kStrip) {
    const std::int64_t count = std::min({kStrip, rows - row, (end + cols - 1) / cols - row});
    for (std::int64_t col = 0; col < cols; ++col) {
      copy_as_floats(stored, static_cast<std::uint64_t>(col * rows + row),
                     std::span(strip).first(static_cast<std::size_t>(count)));
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t at = (row + i) * cols + col;
        if (at >= first && at < end)
          out[static_cast<std::size_t>(at - first)] = strip[static_cast<std::size_t>(i)];
      }
    }
  }
}

}  // namespace

HfSource::HfSource(const std::filesystem::path& folder, HfModel model, NewHead new_head)
    : files_(hf_network_folder(folder), weights_stem(model.library)),
      model_(std::move(model)),
      new_head_(std::move(new_head)) {
  for (std::size_t i = 0; i < model_.tensors.size(); ++i) index_[model_.tensors[i].name] = i;
  add_names();
}

std::set<std::string> HfSource::part_names() const {
  std::set<std::string> names;
  for (const HfTensor& tensor : model_.tensors) {
    for (const HfPart& part : tensor.parts) names.insert(part.name);
  }
  return names;
}

/// Files of a model without its head store tensor names without the prefix.
void HfSource::add_names() {
  const std::set<std::string> parts = part_names();
  bool lacks_prefix = false;
  for (const auto& [stored, found] : files_.tensors()) {
    std::string name = plain_tensor_name(stored, name_changes_);
    has_prefix_ = has_prefix_ || (!model_.prefix.empty() && name.starts_with(model_.prefix));
    if (!parts.contains(name) && parts.contains(model_.prefix + name)) {
      name.insert(0, model_.prefix);
      lacks_prefix = true;
    }
    names_.add(stored, name, place());
  }
  if (lacks_prefix) name_changes_.insert(fmt::format("with \"{}\" before them", model_.prefix));
}

std::string HfSource::name_in_file(const std::string& name) const {
  return !has_prefix_ && name.starts_with(model_.prefix) ? name.substr(model_.prefix.size()) : name;
}

const HfSource::Found* HfSource::find(const std::string& name) const {
  const std::string* stored = names_.find(name);
  return stored == nullptr ? nullptr : &files_.tensors().at(*stored);
}

const HfSource::Found* HfSource::find(const HfPart& part) const {
  if (const Found* found = find(part.name)) return found;
  for (const HfCopy& copy : model_.copies) {
    if (copy.of != part.name) continue;
    if (const Found* found = find(copy.name)) return found;
  }
  return nullptr;
}

bool HfSource::is_new(const std::string& name) const {
  if (!new_head_.has(name)) return false;
  if (new_head_.when == NewHead::When::kAlways) return true;
  // If the file has part of the layer, the file is damaged and the head is not new.
  const std::string layer = name.substr(0, name.rfind('.') + 1);
  return std::ranges::none_of(model_.tensors, [&](const HfTensor& tensor) {
    return tensor.name.starts_with(layer) &&
           std::ranges::any_of(tensor.parts, [&](const HfPart& part) { return find(part) != nullptr; });
  });
}

void HfSource::check_part(const HfTensor& tensor, const HfPart& part) const {
  const std::string name = name_in_file(part.name);
  const Found* found = find(part);
  if (found == nullptr) {
    throw TensorMismatch(
        tensor.name, fmt::format("{} has no tensor '{}': it was saved from another model", place(), name));
  }
  const SafetensorsTensor& stored = *found->tensor;
  if (is_float_data(stored) && stored.shape == part.shape) return;
  throw TensorMismatch(
      tensor.name,
      fmt::format(
          "{}: tensor '{}' is {} [{}], this model needs F32, F16 or BF16 [{}]: it was saved from another "
          "model",
          found->file.string(), stored.name, stored.dtype, fmt::join(stored.shape, ", "),
          fmt::join(part.shape, ", ")));
}

bool HfSource::is_explained(const std::string& name, const Found& stored) const {
  for (const HfCopy& copy : model_.copies) {
    if (copy.name != name) continue;
    const Found* original = find(copy.of);
    if (original != nullptr) check_copy(stored, *original, model_.can_be_untied);
    return true;
  }
  for (const HfDerived& derived : model_.derived) {
    if (!name.ends_with(derived.end)) continue;
    check_derived(stored, derived);
    return true;
  }
  const bool is_of_other_head = std::ranges::any_of(model_.unused, [&](const std::string& start) {
    return name.starts_with(start) || (model_.prefix + name).starts_with(start);
  });
  if (is_of_other_head) unused_.insert(stored.tensor->name);
  return is_of_other_head;
}

void HfSource::check_not_taken() const {
  const std::set<std::string> parts = part_names();
  for (const auto& [name, stored] : names_.all()) {
    const Found& found = files_.tensors().at(stored);
    if (parts.contains(name) || is_explained(name, found)) continue;
    throw TensorMismatch(
        stored,
        fmt::format("{} holds the tensor '{}', which this model does not have: it was saved from another "
                    "model",
                    found.file.string(), stored));
  }
}

std::vector<std::string> HfSource::notes() const {
  std::vector<std::string> notes = describe_name_changes(name_changes_, place());
  if (unused_.empty()) return notes;
  notes.push_back(
      fmt::format("{}: not used, as this model has no such head: {}", place(), fmt::join(unused_, ", ")));
  return notes;
}

void HfSource::check(std::span<const SafetensorsEntry> wanted) const {
  for (const SafetensorsEntry& entry : wanted) {
    const auto found = index_.find(entry.name);
    TRIREME_CHECK(found != index_.end(), "Hugging Face's format has no place for the tensor '{}'",
                  entry.name);
    const HfTensor& tensor = model_.tensors[found->second];
    for (const HfPart& part : tensor.parts) check_part(tensor, part);
    TRIREME_CHECK(stacked_shape(tensor) == entry.shape, "{} gives '{}' as [{}], this model needs [{}]",
                  place(), entry.name, fmt::join(stacked_shape(tensor), ", "), fmt::join(entry.shape, ", "));
  }
  if (!is_compared_) check_not_taken();
  is_compared_ = true;
}

void HfSource::copy_floats(const std::string& name, std::uint64_t first, std::span<float> out) const {
  std::int64_t begin = 0;  // of the part, in our tensor
  const auto from = static_cast<std::int64_t>(first);
  const std::int64_t to = from + static_cast<std::int64_t>(out.size());
  for (const HfPart& part : model_.tensors[index_.at(name)].parts) {
    const std::int64_t end = begin + num_elems(part.shape);
    const std::int64_t low = std::max(from, begin), high = std::min(to, end);
    if (low < high) {
      const std::span<float> target =
          out.subspan(static_cast<std::size_t>(low - from), static_cast<std::size_t>(high - low));
      const SafetensorsTensor& stored = *find(part)->tensor;
      if (part.transposed) {
        copy_transposed(stored, low - begin, target);
      } else {
        copy_as_floats(stored, static_cast<std::uint64_t>(low - begin), target);
      }
    }
    begin = end;
  }
}

}  // namespace trireme
