#include "parallel/run/saved_tensors.h"

#include <algorithm>
#include <map>
#include <utility>

#include "parallel/run/checkpoint_state.h"
#include "runtime/base/nf4.h"

namespace trireme {
namespace {

// A state of the optimizer exists for some groups only.
std::vector<CheckpointTensor> tensors_of(const Engine& engine, const std::string& state_name, int state) {
  std::vector<CheckpointTensor> tensors;
  std::map<std::string, std::size_t> places;
  const std::string prefix = state_name.empty() ? "" : state_name + ".";
  for (std::size_t g = 0; g < engine.layout().groups.size(); ++g) {
    const std::vector<std::string>& states = engine.parameters().state_names(static_cast<int>(g));
    const auto index = static_cast<std::size_t>(state);
    if (state >= 0 && (index >= states.size() || states[index] != state_name)) continue;
    for (const ParamSlot& slot : engine.layout().groups[g].slots) {
      const SavedPart part{static_cast<int>(g), slot.offset, slot.shape, slot.slice};
      const std::string name = prefix + whole_name(slot.slice, slot.name);
      const auto [place, is_new] = places.emplace(name, tensors.size());
      if (is_new) {
        tensors.push_back({name, whole_shape(slot.slice, slot.shape), {part}, state});
      } else {
        tensors[place->second].parts.push_back(part);
      }
    }
  }
  return tensors;
}

std::vector<std::int64_t> dims_of(const Shape& shape) {
  std::vector<std::int64_t> dims;
  for (int i = 0; i < shape.rank(); ++i) dims.push_back(shape[i]);
  return dims;
}

}  // namespace

std::vector<CheckpointTensor> statistics_of(const Engine& engine, StatisticRule rule) {
  std::vector<CheckpointTensor> tensors;
  for (const StatisticStore::Entry& entry : engine.statistics().entries()) {
    if (entry.rule != rule) continue;
    tensors.push_back(
        {.name = entry.name,
         .shape = entry.shape,
         .parts = {{.group = SavedPart::kStatistics, .offset = entry.offset, .shape = entry.shape}},
         .owned_at = entry.owned_at});
  }
  return tensors;
}

std::vector<CheckpointTensor> model_tensors(const Engine& engine, int state) {
  std::vector<CheckpointTensor> tensors = tensors_of(engine, "", state);
  const std::vector<CheckpointTensor> more = statistics_of(engine, StatisticRule::kAverage);
  tensors.insert(tensors.end(), more.begin(), more.end());
  return tensors;
}

std::vector<CheckpointTensor> optimizer_tensors(const Engine& engine) {
  std::vector<CheckpointTensor> tensors;
  std::vector<std::pair<std::string, int>> states;  // each once
  for (std::size_t g = 0; g < engine.layout().groups.size(); ++g) {
    const std::vector<std::string>& names = engine.parameters().state_names(static_cast<int>(g));
    for (std::size_t s = 0; s < names.size(); ++s) {
      const std::pair state{names[s], static_cast<int>(s)};
      if (std::ranges::find(states, state) == states.end()) states.push_back(state);
    }
  }
  for (const auto& [name, index] : states) {
    const std::vector<CheckpointTensor> more = tensors_of(engine, name, index);
    tensors.insert(tensors.end(), more.begin(), more.end());
  }
  return tensors;
}

std::vector<CheckpointTensor> nf4_scales(const Engine& engine) {
  std::vector<CheckpointTensor> tensors;
  for (int g = 0; g < static_cast<int>(engine.layout().groups.size()); ++g) {
    const ParamGroup& group = engine.layout().groups[static_cast<std::size_t>(g)];
    if (!group.quantized) continue;
    std::int64_t offset = 0;
    for (const ParamSlot& slot : group.slots) {
      const Shape shape{num_nf4_scales(slot.shape.num_elems())};
      tensors.push_back({.name = slot.name + ".nf4_scales",
                         .shape = shape,
                         .parts = {{.group = g, .offset = offset, .shape = shape}},
                         .state = CheckpointTensor::kNf4Scales});
      offset += shape.num_elems();
    }
  }
  return tensors;
}

std::vector<SavedFile> saved_files(const Engine& engine) {
  std::vector<SavedFile> files = {{kModelFile, model_tensors(engine)}};
  if (engine.parameters().has_averages()) {
    files.push_back({kAveragesFile, model_tensors(engine, CheckpointTensor::kAverage)});
  }
  files.push_back({kFp8MaximaFile, statistics_of(engine, StatisticRule::kMaxima)});
  files.push_back({kNf4ScalesFile, nf4_scales(engine)});
  files.push_back({kOptimizerFile, optimizer_tensors(engine)});
  std::erase_if(files, [](const SavedFile& file) { return file.name != kModelFile && file.tensors.empty(); });
  return files;
}

std::vector<SafetensorsEntry> entries_of(const std::vector<CheckpointTensor>& tensors) {
  std::vector<SafetensorsEntry> entries;
  for (const CheckpointTensor& t : tensors) entries.push_back({t.name, "F32", dims_of(t.shape)});
  return entries;
}

bool is_in_codes(const ParamStore& params, int group, int state) {
  return state != CheckpointTensor::kNf4Scales && params.quantized(group) != nullptr;
}

const Tensor& owned_of(const ParamStore& params, int group, int state) {
  if (state == CheckpointTensor::kNf4Scales) return params.quantized(group)->scales();
  if (state == CheckpointTensor::kAverage) return params.average(group);
  return state < 0 ? params.master(group) : params.state(group, state);
}

}  // namespace trireme
