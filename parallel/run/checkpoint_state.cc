#include "parallel/run/checkpoint_state.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <functional>
#include <optional>
#include <ranges>
#include <span>

#include "parallel/run/saved_tensors.h"
#include "parallel/run/state_files.h"
#include "runtime/base/error.h"
#include "runtime/checkpoint/safetensors_source.h"

namespace trireme {
namespace {

// Runs `stage` on every rank. If it fails on any rank, all ranks throw. Collective.
void run_on_all(Communicator& comm, const std::function<void()>& stage) {
  std::exception_ptr failure;
  try {
    stage();
  } catch (...) {
    failure = std::current_exception();
  }
  const auto failed = comm.all_gather_value(static_cast<std::uint8_t>(failure != nullptr));
  if (failure) std::rethrow_exception(failure);
  const auto rank = std::ranges::find(failed, 1) - failed.begin();
  if (rank == comm.size()) return;
  throw Error(ErrorCode::kRuntime, "rank {} could not write its part of a checkpoint", rank)
      .about({.rank = static_cast<int>(rank)});
}

void check_names(const TensorSource& source, const std::vector<CheckpointTensor>& tensors) {
  source.check(entries_of(tensors));
}

// This rank's piece of a part of a tensor.
struct OwnedPart {
  std::int64_t first = 0, count = 0;  // elements within the part
  Tensor values;                      // from `first` on; undefined: they are in the codes of the group
};

std::optional<OwnedPart> owned_part(const Engine& engine, const CheckpointTensor& t, const SavedPart& part) {
  if (t.is_statistic()) {
    if (t.owned_at < 0) return std::nullopt;
    return OwnedPart{0, t.shape.num_elems(), engine.statistics().values().slice(t.owned_at, t.shape)};
  }
  if (!engine.parameters().owns(part.group)) return std::nullopt;
  if (is_in_codes(engine.parameters(), part.group, t.state)) {
    return OwnedPart{.count = part.shape.num_elems(), .values = {}};
  }
  if (t.state == CheckpointTensor::kNf4Scales) {
    const Tensor& scales = owned_of(engine.parameters(), part.group, t.state);
    return OwnedPart{0, t.shape.num_elems(), scales.slice(part.offset, t.shape)};
  }
  const Tensor& owned = owned_of(engine.parameters(), part.group, t.state);
  const std::int64_t first = engine.parameters().first_owned(part.group);
  const std::int64_t begin = std::max(part.offset, first);
  const std::int64_t end = std::min(part.offset + part.shape.num_elems(), first + owned.num_elems());
  if (end <= begin) return std::nullopt;
  return OwnedPart{begin - part.offset, end - begin, owned.slice(begin - first, {end - begin})};
}

// Calls visit(first element in the whole tensor, elements) for each contiguous run of a piece's values.
template <class Float, class Visit>
void for_each_run(const SavedPart& part, std::int64_t first, std::span<Float> values, const Visit& visit) {
  while (!values.empty()) {
    const SliceRun run = run_from(part.slice, part.shape, first);
    const std::size_t count = std::min(values.size(), static_cast<std::size_t>(run.count));
    visit(static_cast<std::uint64_t>(run.first_of_whole), values.first(count));
    values = values.subspan(count);
    first += static_cast<std::int64_t>(count);
  }
}

// Calls visit(tensor, part, this rank's piece) for every piece of this rank.
template <class Visit>
void for_each_owned(const Engine& engine, const std::vector<CheckpointTensor>& tensors, const Visit& visit) {
  for (const CheckpointTensor& t : tensors) {
    for (const SavedPart& part : t.parts) {
      if (const auto owned = owned_part(engine, t, part)) visit(t, part, *owned);
    }
  }
}

// The values of a piece in the source.
std::vector<float> values_in(const TensorSource& source, const CheckpointTensor& t, const SavedPart& part,
                             const OwnedPart& owned) {
  std::vector<float> values(static_cast<std::size_t>(owned.count));
  for_each_run(part, owned.first, std::span(values),
               [&](std::uint64_t first, std::span<float> run) { source.copy_floats(t.name, first, run); });
  return values;
}

/// The kind of number that a tensor must contain.
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

// Rejects values with which a model would train to NaN. Each rank checks its own piece, so all ranks together
// check everything once. `rule` is the rule of the statistics among the tensors.
void check_values(const Engine& engine, const TensorSource& source,
                  const std::vector<CheckpointTensor>& tensors, StatisticRule rule) {
  for_each_owned(
      engine, tensors, [&](const CheckpointTensor& t, const SavedPart& part, const OwnedPart& owned) {
        const std::vector<float> values = values_in(source, t, part, owned);
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
                  const std::vector<CheckpointTensor>& tensors,
                  QuantizedGroup::Scales scales = QuantizedGroup::Scales::kFromNumbers) {
  const Context& ctx = engine.context();
  for_each_owned(engine, tensors,
                 [&](const CheckpointTensor& t, const SavedPart& part, const OwnedPart& owned) {
                   const std::vector<float> values = values_in(source, t, part, owned);
                   if (owned.values.defined())
                     return ctx.backend->copy_from_host(ctx.exec, owned.values, values.data());
                   const QuantizedGroup& codes = *engine.parameters().quantized(part.group);
                   codes.write(ctx, codes.slot_from(part.offset), values, scales);
                 });
}

}  // namespace

std::vector<CheckpointFile> save_state(const Engine& engine, const std::filesystem::path& folder) {
  Communicator& comm = engine.communicator();
  const bool is_first = comm.rank() == 0;
  const StateFiles files(engine);
  const std::filesystem::path place = comm.all_gather_strings(is_first ? folder.string() : "")[0];
  std::vector<std::uint64_t> hashes;
  run_on_all(comm, [&] {
    if (is_first) files.make(place);
  });
  run_on_all(comm, [&] { files.write(place, StateFiles::State::kNow, false); });
  run_on_all(comm, [&] { hashes = files.hash(place); });
  hashes = comm.all_gather_values(std::span<const std::uint64_t>(hashes));
  return is_first ? files.describe(hashes) : std::vector<CheckpointFile>();
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

namespace {

std::vector<float> on_host(const Engine& engine, const SavedPart& part, const OwnedPart& owned) {
  if (owned.values.defined()) return engine.context().to_host(owned.values);
  std::vector<float> values(static_cast<std::size_t>(owned.count));
  engine.parameters().quantized(part.group)->read(engine.context(), part.offset, values);
  return values;
}

}  // namespace

void visit_model(const Engine& engine, const PieceVisitor& visit) {
  for_each_owned(engine, model_tensors(engine),
                 [&](const CheckpointTensor& t, const SavedPart& part, const OwnedPart& owned) {
                   const std::vector<float> values = on_host(engine, part, owned);
                   for_each_run(
                       part, owned.first, std::span(values),
                       [&](std::uint64_t first, std::span<const float> run) { visit(t.name, first, run); });
                 });
}

void load_model(Engine& engine, const TensorSource& source) {
  check_model(engine, source);
  engine.parameters().settle();
  read_tensors(engine, source, model_tensors_in(engine, source));
  engine.parameters().restart_averages();
  engine.refresh_parameters();
}

namespace {

// Frozen parameters have no averages; the file has their masters instead.
void load_averages(const Engine& engine, const std::filesystem::path& folder) {
  if (!engine.parameters().has_averages() || !std::filesystem::exists(folder / kAveragesFile)) return;
  const SafetensorsSource averages(folder / kAveragesFile);
  const std::vector<CheckpointTensor> tensors = model_tensors(engine, CheckpointTensor::kAverage);
  check_names(averages, tensors);
  read_tensors(engine, averages, tensors, QuantizedGroup::Scales::kKept);
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
  const std::vector<CheckpointTensor> scales = nf4_scales(engine);
  if (!scales.empty()) {
    const SafetensorsSource saved(folder / kNf4ScalesFile);
    check_names(saved, scales);
    read_tensors(engine, saved, scales);
  }
  read_tensors(engine, model, tensors, QuantizedGroup::Scales::kKept);
  engine.parameters().restart_averages();
  if (parts == StateParts::kAll) load_averages(engine, folder);
  engine.refresh_parameters();
}

}  // namespace trireme
