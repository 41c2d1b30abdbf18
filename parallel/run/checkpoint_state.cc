#include "parallel/run/checkpoint_state.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "runtime/base/error.h"
#include "runtime/checkpoint/safetensors_source.h"

namespace trireme {
namespace {

constexpr int kStatistics = -1;

// One tensor of a file: its name there, and where it lies in which flat tensor of the engine.
struct SavedTensor {
  std::string name;
  Shape shape;
  int group = 0;   // kStatistics: none
  int state = -1;  // of the optimizer; -1: the master
  std::int64_t offset = 0;
  std::int64_t owned_at = -1;  // of a statistic, in what this rank has of them; -1: another stage has it
};

std::vector<SavedTensor> tensors_of(const Engine& engine, const std::string& prefix, int state) {
  std::vector<SavedTensor> tensors;
  for (std::size_t g = 0; g < engine.layout().groups.size(); ++g) {
    for (const ParamSlot& slot : engine.layout().groups[g].slots) {
      tensors.push_back({prefix + slot.name, slot.shape, static_cast<int>(g), state, slot.offset});
    }
  }
  return tensors;
}

std::vector<SavedTensor> statistics_of(const Engine& engine, StatisticRule rule) {
  std::vector<SavedTensor> tensors;
  for (const StatisticStore::Entry& entry : engine.statistics().entries()) {
    if (entry.rule != rule) continue;
    tensors.push_back({entry.name, entry.shape, kStatistics, -1, entry.offset, entry.owned_at});
  }
  return tensors;
}

std::vector<SavedTensor> model_tensors(const Engine& engine) {
  std::vector<SavedTensor> tensors = tensors_of(engine, "", -1);
  const std::vector<SavedTensor> more = statistics_of(engine, StatisticRule::kAverage);
  tensors.insert(tensors.end(), more.begin(), more.end());
  return tensors;
}

std::vector<SavedTensor> optimizer_tensors(const Engine& engine) {
  std::vector<SavedTensor> tensors;
  const std::vector<std::string>& states = engine.parameters().state_names();
  for (std::size_t s = 0; s < states.size(); ++s) {
    const std::vector<SavedTensor> more = tensors_of(engine, states[s] + ".", static_cast<int>(s));
    tensors.insert(tensors.end(), more.begin(), more.end());
  }
  return tensors;
}

// This rank's shard of the group that `t` belongs to.
const Tensor& owned_of(const Engine& engine, const SavedTensor& t) {
  return t.state < 0 ? engine.parameters().master(t.group) : engine.parameters().state(t.group, t.state);
}

std::vector<std::int64_t> dims_of(const Shape& shape) {
  std::vector<std::int64_t> dims;
  for (int i = 0; i < shape.rank(); ++i) dims.push_back(shape[i]);
  return dims;
}

// All of a flat tensor, on rank 0 and on some more. Collective.
Tensor whole_on_first(const Engine& engine, const SavedTensor& t) {
  if (t.group == kStatistics) return engine.statistics().whole();
  const MeshGroups& groups = engine.groups();
  const int stage = engine.stages().stage_of(owner_unit(engine.layout(), t.group));
  const Coord here = groups.coord();
  Tensor flat;
  if (here[Axis::kPipeline] == stage) flat = engine.parameters().whole(t.group, owned_of(engine, t));
  if (stage == 0 || here[Axis::kData] != 0) return flat;
  // To all stages, although the first would do: there are no channels to it but for a step's messages.
  if (here[Axis::kPipeline] != stage) {
    const std::int64_t elems = engine.layout().groups[static_cast<std::size_t>(t.group)].num_elems;
    flat = engine.context().empty({elems}, DType::kFloat32, MemoryCategory::kCommunication);
  }
  groups.along(Axis::kPipeline)->broadcast(flat, stage).wait();
  return flat;
}

// Gathers one group at a time; rank 0 writes it.
std::optional<CheckpointFile> write_file(const Engine& engine, const std::filesystem::path& path,
                                         const std::vector<SavedTensor>& tensors) {
  std::vector<SafetensorsEntry> entries;
  for (const SavedTensor& t : tensors) entries.push_back({t.name, "F32", dims_of(t.shape)});
  std::optional<SafetensorsWriter> writer;
  if (engine.communicator().rank() == 0) {
    writer.emplace(path, entries, std::map<std::string, std::string>{{"format", "trireme"}});
  }
  Tensor flat;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const SavedTensor& t = tensors[i];
    const bool next_flat = i == 0 || t.group != tensors[i - 1].group || t.state != tensors[i - 1].state;
    if (next_flat) flat = Tensor();  // before the next gather: one group at a time
    if (next_flat) flat = whole_on_first(engine, t);
    if (writer) writer->append(engine.context().to_host(flat.slice(t.offset, t.shape)));
  }
  if (!writer) return std::nullopt;
  return writer->commit();
}

void check_names(const TensorSource& source, const std::vector<SavedTensor>& tensors) {
  std::vector<SafetensorsEntry> wanted;
  for (const SavedTensor& t : tensors) wanted.push_back({t.name, "F32", dims_of(t.shape)});
  source.check(wanted);
}

// This rank's part of a tensor.
struct OwnedPart {
  std::int64_t first = 0;  // element of the tensor
  Tensor values;           // from there on
};

std::optional<OwnedPart> owned_part(const Engine& engine, const SavedTensor& t) {
  if (t.group == kStatistics) {
    if (t.owned_at < 0) return std::nullopt;
    return OwnedPart{0, engine.statistics().values().slice(t.owned_at, t.shape)};
  }
  if (!engine.parameters().owns(t.group)) return std::nullopt;
  const Tensor& owned = owned_of(engine, t);
  const std::int64_t first = engine.parameters().first_owned(t.group);
  const std::int64_t begin = std::max(t.offset, first);
  const std::int64_t end = std::min(t.offset + t.shape.num_elems(), first + owned.num_elems());
  if (end <= begin) return std::nullopt;
  return OwnedPart{begin - t.offset, owned.slice(begin - first, {end - begin})};
}

std::vector<float> read_part(const TensorSource& source, const SavedTensor& t, const OwnedPart& part) {
  std::vector<float> values(static_cast<std::size_t>(part.values.num_elems()));
  source.copy_floats(t.name, static_cast<std::uint64_t>(part.first), values);
  return values;
}

/// What the elements of a tensor are.
struct Elements {
  const char* text;
  bool (*holds)(float value);
};
constexpr Elements kFinite{"finite number", [](float value) { return std::isfinite(value); }};
constexpr Elements kVariance{"variance", [](float value) { return std::isfinite(value) && value >= 0.0f; }};
constexpr Elements kMaximum{"maximum of magnitudes", [](float value) { return value >= 0.0f; }};

Elements elements_of(const SavedTensor& t, StatisticRule rule) {
  if (t.group != kStatistics) return kFinite;
  if (rule == StatisticRule::kMaxima) return kMaximum;
  return t.name.ends_with(".running_var") ? kVariance : kFinite;
}

// A model with other numbers would train, and give nothing but NaN: of what this rank has, so all ranks
// together look at everything once. `rule` is that of the statistics among them.
void check_values(const Engine& engine, const TensorSource& source, const std::vector<SavedTensor>& tensors,
                  StatisticRule rule) {
  for (const SavedTensor& t : tensors) {
    const auto part = owned_part(engine, t);
    if (!part) continue;
    const Elements elements = elements_of(t, rule);
    const std::vector<float> values = read_part(source, t, *part);
    const auto bad = std::ranges::find_if_not(values, elements.holds);
    if (bad == values.end()) continue;
    throw Error(ErrorCode::kInvalidInput,
                "{}: element {} of tensor '{}' is {}, which is no {}: the file is damaged, or was "
                "saved after its training had failed; choose another one",
                source.place(), part->first + (bad - values.begin()), t.name, *bad, elements.text);
  }
}

void read_tensors(const Engine& engine, const TensorSource& source, const std::vector<SavedTensor>& tensors) {
  const Context& ctx = engine.context();
  for (const SavedTensor& t : tensors) {
    const auto part = owned_part(engine, t);
    if (part) ctx.backend->copy_from_host(ctx.exec, part->values, read_part(source, t, *part).data());
  }
}

}  // namespace

std::vector<CheckpointFile> save_state(const Engine& engine, const std::filesystem::path& folder) {
  std::vector<CheckpointFile> files;
  if (const auto file = write_file(engine, folder / kModelFile, model_tensors(engine)))
    files.push_back(*file);
  const std::vector<SavedTensor> maxima = statistics_of(engine, StatisticRule::kMaxima);
  if (!maxima.empty()) {
    if (const auto file = write_file(engine, folder / kFp8MaximaFile, maxima)) files.push_back(*file);
  }
  const std::vector<SavedTensor> state = optimizer_tensors(engine);
  if (state.empty()) return files;
  if (const auto file = write_file(engine, folder / kOptimizerFile, state)) files.push_back(*file);
  return files;
}

void check_model(const Engine& engine, const TensorSource& source) {
  const std::vector<SavedTensor> tensors = model_tensors(engine);
  check_names(source, tensors);
  check_values(engine, source, tensors, StatisticRule::kAverage);
}

void load_model(Engine& engine, const TensorSource& source) {
  check_model(engine, source);
  engine.parameters().settle();
  read_tensors(engine, source, model_tensors(engine));
  engine.refresh_parameters();
}

void load_state(Engine& engine, const std::filesystem::path& folder, StateParts parts) {
  const SafetensorsSource model(folder / kModelFile);
  const std::vector<SavedTensor> tensors = model_tensors(engine);
  check_names(model, tensors);
  const std::vector<SavedTensor> state = optimizer_tensors(engine);
  engine.parameters().settle();
  if (parts == StateParts::kAll && !state.empty()) {
    const SafetensorsSource optimizer(folder / kOptimizerFile);
    check_names(optimizer, state);
    read_tensors(engine, optimizer, state);
  }
  const std::vector<SavedTensor> maxima = statistics_of(engine, StatisticRule::kMaxima);
  if (!maxima.empty() && std::filesystem::exists(folder / kFp8MaximaFile)) {
    const SafetensorsSource saved(folder / kFp8MaximaFile);
    check_names(saved, maxima);
    check_values(engine, saved, maxima, StatisticRule::kMaxima);
    read_tensors(engine, saved, maxima);
  }
  read_tensors(engine, model, tensors);
  engine.refresh_parameters();
}

}  // namespace trireme
