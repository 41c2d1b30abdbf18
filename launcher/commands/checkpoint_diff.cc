#include "launcher/commands/checkpoint_diff.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>

#include "launcher/keys/config_difference.h"
#include "launcher/state/run_state.h"
#include "runtime/base/error.h"
#include "runtime/checkpoint/safetensors_reader.h"

namespace trireme {
namespace {

/// The tensors in all safetensors files of a checkpoint, named "file: name".
class CheckpointTensors {
 public:
  explicit CheckpointTensors(const Checkpoint& checkpoint) {
    for (const CheckpointFile& file : checkpoint.manifest.files) {
      if (!file.name.ends_with(".safetensors")) continue;
      readers_.push_back(std::make_unique<SafetensorsReader>(checkpoint.folder / file.name));
      for (const SafetensorsTensor& tensor : readers_.back()->tensors())
        tensors_[fmt::format("{}: {}", file.name, tensor.name)] = &tensor;
    }
  }
  const std::map<std::string, const SafetensorsTensor*>& all() const { return tensors_; }

 private:
  std::vector<std::unique_ptr<SafetensorsReader>> readers_;
  std::map<std::string, const SafetensorsTensor*> tensors_;
};

float float_at(const SafetensorsTensor& tensor, std::uint64_t element) {
  float value = 0;
  std::memcpy(&value, tensor.data.data() + element * sizeof value, sizeof value);
  return value;
}

/// Empty if the bits are equal.
std::string compare_values(const SafetensorsTensor& a, const SafetensorsTensor& b) {
  if (std::ranges::equal(a.data, b.data)) return "";
  if (a.dtype != "F32") return "other bytes";
  std::uint64_t num_different = 0;
  float largest = 0;
  for (std::uint64_t i = 0; i < a.num_elems; ++i) {
    const float x = float_at(a, i), y = float_at(b, i);
    if (std::memcmp(&x, &y, sizeof x) == 0) continue;
    ++num_different;
    const float difference = std::abs(x - y);
    // NaN is kept once seen: it compares as larger than nothing.
    if (!(difference <= largest) && !std::isnan(largest)) largest = difference;
  }
  return fmt::format("{} of {} values differ, by {} at most", num_different, a.num_elems, largest);
}

void add_tensors(const Checkpoint& a, const Checkpoint& b, std::vector<std::string>& lines) {
  const CheckpointTensors of_a(a), of_b(b);
  for (const auto& [name, tensor] : of_a.all()) {
    const auto other = of_b.all().find(name);
    if (other == of_b.all().end()) {
      lines.push_back(fmt::format("{}: only in {}", name, a.folder.string()));
    } else if (tensor->dtype != other->second->dtype || tensor->shape != other->second->shape) {
      lines.push_back(fmt::format("{}: {} [{}], and {} [{}]", name, tensor->dtype,
                                  fmt::join(tensor->shape, ", "), other->second->dtype,
                                  fmt::join(other->second->shape, ", ")));
    } else if (const std::string text = compare_values(*tensor, *other->second); !text.empty()) {
      lines.push_back(fmt::format("{}: {}", name, text));
    }
  }
  for (const auto& [name, tensor] : of_b.all()) {
    if (!of_a.all().contains(name)) lines.push_back(fmt::format("{}: only in {}", name, b.folder.string()));
  }
}

}  // namespace

std::vector<std::string> describe_differences(const Checkpoint& a, const Checkpoint& b) {
  const RunState state_a = read_run_state(a), state_b = read_run_state(b);
  std::vector<std::string> lines;
  if (state_a.step != state_b.step)
    lines.push_back(fmt::format("step ({}, now {})", state_a.step, state_b.step));
  for (const std::string& change : describe_changes(state_a.config, state_b.config)) lines.push_back(change);
  add_tensors(a, b, lines);
  return lines;
}

}  // namespace trireme
