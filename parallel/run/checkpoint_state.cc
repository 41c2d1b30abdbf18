#include "parallel/run/checkpoint_state.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "parallel/run/saved_tensors.h"
#include "parallel/watch/watchdog.h"
#include "runtime/base/error.h"
#include "runtime/checkpoint/safetensors_source.h"

namespace trireme {
namespace {

// All of a group's flat tensor, on rank 0 and on some more. Collective.
Tensor whole_on_first(const Engine& engine, int g, int state) {
  if (g == SavedPart::kStatistics) return engine.statistics().whole();
  const MeshGroups& groups = engine.groups();
  const ParamGroup& group = engine.layout().groups[static_cast<std::size_t>(g)];
  const int stage = engine.stages().stage_of(owner_unit(engine.layout(), g));
  const int place = place_of(group, groups.mesh.size(Axis::kTensor));
  const Coord here = groups.coord();
  Tensor flat;
  if (engine.parameters().owns(g)) flat = engine.parameters().whole(g, owned_of(engine, g, state));
  // To all of the axis, although the first would do: there are no channels to it but for a step's messages.
  const auto spread = [&](Axis axis, int from) {
    if (from == 0) return;
    if (!flat.defined()) {
      flat = engine.context().empty({group.num_elems}, DType::kFloat32, MemoryCategory::kCommunication);
    }
    groups.along(axis)->broadcast(flat, from).wait();
  };
  if (here[Axis::kData] != 0) return flat;
  if (here[Axis::kTensor] == place) spread(Axis::kPipeline, stage);
  if (here[Axis::kPipeline] == 0) spread(Axis::kTensor, place);
  return flat;
}

// The flat tensors that neighbouring tensors of a file are made of: one group, or those of a block's chunks.
class WholeGroups {
 public:
  explicit WholeGroups(const Engine& engine) : engine_(engine) {}

  // Collective.
  const std::map<int, Tensor>& of(const CheckpointTensor& t) {
    const bool are_here = t.state == state_ && std::ranges::all_of(t.parts, [&](const SavedPart& part) {
                            return flat_.contains(part.group);
                          });
    if (are_here) return flat_;
    flat_.clear();  // before the next gather
    state_ = t.state;
    for (const SavedPart& part : t.parts) flat_[part.group] = whole_on_first(engine_, part.group, t.state);
    return flat_;
  }

 private:
  const Engine& engine_;
  int state_ = CheckpointTensor::kMaster;
  std::map<int, Tensor> flat_;  // by group
};

std::vector<float> assemble(const Engine& engine, const CheckpointTensor& t,
                            const std::map<int, Tensor>& flat) {
  std::vector<float> whole;
  for (const SavedPart& part : t.parts) {
    std::vector<float> values = engine.context().to_host(flat.at(part.group).slice(part.offset, part.shape));
    if (part.slice.is_whole()) return values;
    whole.resize(static_cast<std::size_t>(t.shape.num_elems()));
    for (std::int64_t at = 0; at < part.shape.num_elems();) {
      const SliceRun run = run_from(part.slice, part.shape, at);
      std::copy_n(values.begin() + run.first, run.count, whole.begin() + run.first_of_whole);
      at += run.count;
    }
  }
  return whole;
}

// Rank 0 writes.
std::optional<CheckpointFile> write_file(const Engine& engine, const std::filesystem::path& path,
                                         const std::vector<CheckpointTensor>& tensors) {
  const bool writes = engine.communicator().rank() == 0;
  // Names the file where the file system holds up the job.
  const Watchdog::Scope watch(writes ? engine.communicator().status().get() : nullptr,
                              "the writing of " + path.string());
  std::optional<SafetensorsWriter> writer;
  if (writes) writer.emplace(path, entries_of(tensors), kFileMetadata);
  WholeGroups groups(engine);
  for (const CheckpointTensor& t : tensors) {
    const std::map<int, Tensor>& flat = groups.of(t);
    if (writer) writer->append(assemble(engine, t, flat));
  }
  if (!writer) return std::nullopt;
  return writer->commit();
}

void check_names(const TensorSource& source, const std::vector<CheckpointTensor>& tensors) {
  source.check(entries_of(tensors));
}

// What this rank has of a part of a tensor.
struct OwnedPart {
  std::int64_t first = 0;  // element of the part
  Tensor values;           // from there on
};

std::optional<OwnedPart> owned_part(const Engine& engine, const CheckpointTensor& t, const SavedPart& part) {
  if (t.is_statistic()) {
    if (t.owned_at < 0) return std::nullopt;
    return OwnedPart{0, engine.statistics().values().slice(t.owned_at, t.shape)};
  }
  if (!engine.parameters().owns(part.group)) return std::nullopt;
  const Tensor& owned = owned_of(engine, part.group, t.state);
  const std::int64_t first = engine.parameters().first_owned(part.group);
  const std::int64_t begin = std::max(part.offset, first);
  const std::int64_t end = std::min(part.offset + part.shape.num_elems(), first + owned.num_elems());
  if (end <= begin) return std::nullopt;
  return OwnedPart{begin - part.offset, owned.slice(begin - first, {end - begin})};
}

// Calls `visit(tensor, part, what this rank has of it, its values in the source)` for all that it has.
template <class Visit>
void for_each_owned(const Engine& engine, const TensorSource& source,
                    const std::vector<CheckpointTensor>& tensors, const Visit& visit) {
  for (const CheckpointTensor& t : tensors) {
    for (const SavedPart& part : t.parts) {
      const auto owned = owned_part(engine, t, part);
      if (!owned) continue;
      std::vector<float> values(static_cast<std::size_t>(owned->values.num_elems()));
      for (std::span<float> left = values; !left.empty();) {
        const auto done = static_cast<std::int64_t>(values.size() - left.size());
        const SliceRun run = run_from(part.slice, part.shape, owned->first + done);
        const std::size_t count = std::min(left.size(), static_cast<std::size_t>(run.count));
        source.copy_floats(t.name, static_cast<std::uint64_t>(run.first_of_whole), left.first(count));
        left = left.subspan(count);
      }
      visit(t, part, *owned, values);
    }
  }
}

/// What the elements of a tensor are.
struct Elements {
  const char* text;
  bool (*holds)(float value);
};
constexpr Elements kFinite{"finite number", [](float value) { return std::isfinite(value); }};
constexpr Elements kVariance{"variance", [](float value) { return std::isfinite(value) && value >= 0.0f; }};
constexpr Elements kMaximum{"maximum of magnitudes", [](float value) { return value >= 0.0f; }};

Elements elements_of(const CheckpointTensor& t, StatisticRule rule) {
  if (!t.is_statistic()) return kFinite;
  if (rule == StatisticRule::kMaxima) return kMaximum;
  return t.name.ends_with(".running_var") ? kVariance : kFinite;
}

// A model with other numbers would train, and give nothing but NaN: of what this rank has, so all ranks
// together look at everything once. `rule` is that of the statistics among them.
void check_values(const Engine& engine, const TensorSource& source,
                  const std::vector<CheckpointTensor>& tensors, StatisticRule rule) {
  for_each_owned(
      engine, source, tensors,
      [&](const CheckpointTensor& t, const SavedPart& part, const OwnedPart& owned,
          const std::vector<float>& values) {
        const Elements elements = elements_of(t, rule);
        const auto bad = std::ranges::find_if_not(values, elements.holds);
        if (bad == values.end()) return;
        const SliceRun place = run_from(part.slice, part.shape, owned.first + (bad - values.begin()));
        throw Error(ErrorCode::kInvalidInput,
                    "{}: element {} of tensor '{}' is {}, which is no {}: the file is damaged, or was "
                    "saved after its training had failed; choose another one",
                    source.place(), place.first_of_whole, t.name, *bad, elements.text);
      });
}

void read_tensors(const Engine& engine, const TensorSource& source,
                  const std::vector<CheckpointTensor>& tensors) {
  const Context& ctx = engine.context();
  for_each_owned(engine, source, tensors,
                 [&](const CheckpointTensor&, const SavedPart&, const OwnedPart& owned,
                     const std::vector<float>& values) {
                   ctx.backend->copy_from_host(ctx.exec, owned.values, values.data());
                 });
}

}  // namespace

std::vector<CheckpointFile> save_state(const Engine& engine, const std::filesystem::path& folder) {
  std::vector<CheckpointFile> files;
  for (const SavedFile& saved : saved_files(engine)) {
    if (const auto file = write_file(engine, folder / saved.name, saved.tensors)) files.push_back(*file);
  }
  return files;
}

namespace {

std::vector<CheckpointTensor> model_tensors_in(const Engine& engine, const TensorSource& source) {
  std::vector<CheckpointTensor> tensors = model_tensors(engine);
  std::erase_if(tensors, [&](const CheckpointTensor& t) { return source.is_new(t.name); });
  return tensors;
}

}  // namespace

std::vector<std::string> new_tensors(const Engine& engine, const TensorSource& source) {
  std::vector<std::string> names;
  for (const CheckpointTensor& t : model_tensors(engine)) {
    if (source.is_new(t.name)) names.push_back(t.name);
  }
  return names;
}

void check_model(const Engine& engine, const TensorSource& source) {
  const std::vector<CheckpointTensor> tensors = model_tensors_in(engine, source);
  check_names(source, tensors);
  check_values(engine, source, tensors, StatisticRule::kAverage);
}

void load_model(Engine& engine, const TensorSource& source) {
  check_model(engine, source);
  engine.parameters().settle();
  read_tensors(engine, source, model_tensors_in(engine, source));
  engine.parameters().restart_averages();
  engine.refresh_parameters();
}

namespace {

// Parameters that are frozen have none, and what the file has of them is what they are.
void load_averages(const Engine& engine, const std::filesystem::path& folder) {
  if (!engine.parameters().has_averages() || !std::filesystem::exists(folder / kAveragesFile)) return;
  const SafetensorsSource averages(folder / kAveragesFile);
  const std::vector<CheckpointTensor> tensors = model_tensors(engine, CheckpointTensor::kAverage);
  check_names(averages, tensors);
  read_tensors(engine, averages, tensors);
}

}  // namespace

void load_state(Engine& engine, const std::filesystem::path& folder, StateParts parts) {
  const SafetensorsSource model(folder / (parts == StateParts::kAverages ? kAveragesFile : kModelFile));
  const std::vector<CheckpointTensor> tensors = model_tensors(engine);
  check_names(model, tensors);
  const std::vector<CheckpointTensor> state = optimizer_tensors(engine);
  engine.parameters().settle();
  if (parts == StateParts::kAll && !state.empty()) {
    const SafetensorsSource optimizer(folder / kOptimizerFile);
    check_names(optimizer, state);
    read_tensors(engine, optimizer, state);
  }
  const std::vector<CheckpointTensor> maxima = statistics_of(engine, StatisticRule::kMaxima);
  if (!maxima.empty() && std::filesystem::exists(folder / kFp8MaximaFile)) {
    const SafetensorsSource saved(folder / kFp8MaximaFile);
    check_names(saved, maxima);
    check_values(engine, saved, maxima, StatisticRule::kMaxima);
    read_tensors(engine, saved, maxima);
  }
  read_tensors(engine, model, tensors);
  engine.parameters().restart_averages();
  if (parts == StateParts::kAll) load_averages(engine, folder);
  engine.refresh_parameters();
}

}  // namespace trireme
