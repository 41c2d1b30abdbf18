#include "launcher/state/initial_weights.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "launcher/config/words.h"
#include "launcher/families/class_rows.h"
#include "launcher/families/hf_exchange.h"
#include "launcher/families/model_family.h"
#include "launcher/state/run_checkpoint.h"
#include "parallel/run/checkpoint_state.h"
#include "runtime/adapter.h"
#include "runtime/base/error.h"
#include "runtime/checkpoint/hf_config.h"
#include "runtime/checkpoint/hf_labels.h"
#include "runtime/checkpoint/hf_source.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/safetensors_source.h"

namespace trireme {
namespace {

/// Compares settings that no tensor's shape shows, such as head counts and rotary positions; with other
/// values the same weights would compute something else. Returns notes on ignored values.
std::vector<std::string> check_same_model(const ModelSection& model, const std::filesystem::path& folder) {
  std::vector<std::string> notes;
  ModelSection theirs = model_of_hf_folder(folder, &notes);
  const std::string path = (hf_network_folder(folder) / kHfConfigFile).string();
  TRIREME_CHECK(theirs.name == model.name, "{} is of model.name = \"{}\", not \"{}\"", path, theirs.name,
                model.name);
  theirs.seq_len = model.seq_len;  // a training setting, unless a tensor has that size
  theirs.dropout = model.dropout;  // a training setting
  theirs.task = model.task;        // affects only the head
  theirs.classes = model.classes;
  if (family_of(model).makes_pictures) theirs.image_size = model.image_size;  // a training setting
  const HfFormat& format = *family_of(model).hf;
  const nlohmann::ordered_json there = format.config(theirs), here = format.config(model);
  for (const auto& [key, value] : here.items()) {
    TRIREME_CHECK(there.at(key) == value,
                  "{}: {} is {}, but the job has {}: use the shape of the folder with model.from = \"hf:{}\"",
                  path, key, there.at(key).dump(), value.dump(), folder.string());
  }
  return notes;
}

NewHead new_head_of(const ModelSection& model) {
  const std::string prefix(family_of(model).class_head);
  if (model.new_head) return {.prefix = prefix, .when = NewHead::When::kAlways};
  return {.prefix = model.task == ModelTask::kClassify ? prefix : ""};
}

/// Weights without adapters, plus newly initialised ones.
class WithNewAdapters final : public TensorSource {
 public:
  explicit WithNewAdapters(std::unique_ptr<TensorSource> weights) : weights_(std::move(weights)) {}

  std::string place() const override { return weights_->place(); }
  void check(std::span<const SafetensorsEntry> wanted) const override { weights_->check(wanted); }
  bool is_new(const std::string& name) const override {
    return is_adapter_name(name) || weights_->is_new(name);
  }
  std::vector<std::string> notes() const override { return weights_->notes(); }
  void copy_floats(const std::string& name, std::uint64_t first, std::span<float> out) const override {
    weights_->copy_floats(name, first, out);
  }

 private:
  std::unique_ptr<TensorSource> weights_;
};

std::unique_ptr<TensorSource> with_new_adapters(const ModelSection& model,
                                                std::unique_ptr<TensorSource> weights) {
  if (!model.has_adapters()) return weights;
  return std::make_unique<WithNewAdapters>(std::move(weights));
}

/// The class names that `trireme export` wrote to a file; empty: none.
std::vector<std::string> names_in(const SafetensorsReader& file) {
  const auto found = file.metadata().find(kClassNamesMetadata);
  if (found == file.metadata().end()) return {};
  try {
    return nlohmann::json::parse(found->second).get<std::vector<std::string>>();
  } catch (const nlohmann::json::exception&) {
    throw Error(ErrorCode::kInvalidInput, "{}: {} in its header is not a list of names", file.path().string(),
                kClassNamesMetadata);
  }
}

/// A checkpoint has this project's tensor names; other files may have names changed by wrappers.
enum class FileOrigin { kCheckpoint, kElsewhere };

InitialWeights open_file(const ModelSection& model, const std::filesystem::path& file,
                         const NewHead& new_head, FileOrigin origin) {
  auto weights = std::make_unique<SafetensorsSource>(file, new_head,
                                                     origin == FileOrigin::kCheckpoint
                                                         ? SafetensorsSource::Names::kAsStored
                                                         : SafetensorsSource::Names::kPlain);
  const bool has_adapters =
      std::ranges::any_of(weights->file().tensors(), is_adapter_name, &SafetensorsTensor::name);
  TRIREME_CHECK(
      model.has_adapters() || !has_adapters,
      "{} has low-rank adapters, but the job has none: set train.lora as in the run that wrote them, or "
      "use the merged model of `trireme export RUN --out FILE`",
      weights->place());
  const auto check_weights = family_of(model).check_weights;
  if (origin == FileOrigin::kElsewhere && check_weights != nullptr) check_weights(model, weights->file());
  InitialWeights initial{.source = nullptr, .class_names = names_in(weights->file()), .notes = {}};
  initial.source = has_adapters ? std::move(weights) : with_new_adapters(model, std::move(weights));
  return initial;
}

/// No tensor contains the scale, but with another scale the same adapters give another model.
void check_adapter_scale(const ModelSection& model, const Checkpoint& checkpoint) {
  const ModelSection there = read_run_state(checkpoint).config.model;
  TRIREME_CHECK(
      !there.has_adapters() || there.lora_alpha == model.lora_alpha,
      "{} was trained with train.lora.alpha = {}, but this job has {}, with which its adapters give another "
      "model: set it to {}, or use the merged model of `trireme export`",
      checkpoint.folder.string(), there.lora_alpha, model.lora_alpha, there.lora_alpha);
  TRIREME_CHECK(!there.has_adapters() || there.lora_rank_stabilized == model.lora_rank_stabilized,
                "{} was trained with train.lora.rank_stabilized = {}, but this job has {}, with which its "
                "adapters give another model: set it to {}, or use the merged model of `trireme export`",
                checkpoint.folder.string(), there.lora_rank_stabilized, model.lora_rank_stabilized,
                there.lora_rank_stabilized);
}

/// `file`: model.safetensors or averages.safetensors.
InitialWeights open_own_checkpoint(const ModelSection& model, const Checkpoint& checkpoint,
                                   const std::filesystem::path& file, const NewHead& new_head) {
  if (model.has_adapters()) check_adapter_scale(model, checkpoint);
  InitialWeights initial = open_file(model, file, new_head, FileOrigin::kCheckpoint);
  initial.class_names = saved_class_names(checkpoint);
  initial.hf_extras = read_run_state(checkpoint).hf_extras;
  return initial;
}

InitialWeights open_hf_folder(const ModelSection& model, const std::filesystem::path& folder,
                              const NewHead& new_head) {
  InitialWeights initial{.source = nullptr, .class_names = {}, .notes = check_same_model(model, folder)};
  initial.hf_extras = read_hf_extras(folder);
  auto weights = std::make_unique<HfSource>(folder, hf_model_of(model), new_head);
  const ModelFamily& family = family_of(model);
  if (counts_classes(model) && !weights->is_new(std::string(family.class_layer) + "weight")) {
    const HfConfig config(folder);
    const std::string saved = config.architecture();
    TRIREME_CHECK(
        saved.empty() || saved == family.hf->classifier,
        "{}: architectures is [\"{}\"], whose classifier differs from {}: set model.new_head = true to use "
        "only the other weights",
        config.path().string(), saved, family.hf->classifier);
    initial.class_names = read_labels(config).names;
  }
  initial.source = with_new_adapters(model, std::move(weights));
  return initial;
}

InitialWeights open_weights(const ModelSection& model, const NewHead& new_head) {
  const std::filesystem::path place = model.init_from;
  std::error_code error;
  if (!std::filesystem::is_directory(place, error)) {
    const std::filesystem::path folder = place.parent_path();
    const bool is_saved_model = place.filename() == kModelFile || place.filename() == kAveragesFile;
    if (!is_saved_model || !std::filesystem::exists(folder / Manifest::kFileName, error)) {
      return open_file(model, place, new_head, FileOrigin::kElsewhere);
    }
    return open_own_checkpoint(model, open_checkpoint(folder, Verify::kSizes), place, new_head);
  }
  if (holds_checkpoint(place)) {
    const Checkpoint checkpoint = open_checkpoint_or_run(place);
    return open_own_checkpoint(model, checkpoint, checkpoint.folder / kModelFile, new_head);
  }
  return open_hf_folder(model, place, new_head);
}

/// Reorders the class head to the data's labels.
void match_class_head(InitialWeights& initial, const ModelSection& model, const ClassNames& data) {
  if (family_of(model).detects && !model.new_head) {
    check_same_classes({.where = model.init_from, .names = initial.class_names}, data,
                       "Use annotations with the same classes in the same order, or set model.new_head = "
                       "true to train a new head");
  }
  const std::string layer(family_of(model).class_layer);
  if (!counts_classes(model) || initial.source->is_new(layer + "weight")) {
    initial.class_names = data.names;
    return;
  }
  if (initial.class_names.empty() && !data.names.empty()) {
    initial.notes.push_back(fmt::format("{} has no class names: classes are matched with {} by their order",
                                        model.init_from, data.where));
  }
  ClassMatch match =
      match_classes({.where = model.init_from, .names = std::move(initial.class_names)}, data, model.classes);
  if (!match.rows.empty()) {
    initial.source = with_class_rows(std::move(initial.source), layer, std::move(match.rows));
  }
  if (!match.note.empty()) initial.notes.push_back(std::move(match.note));
  initial.class_names = std::move(match.names);
}

}  // namespace

std::vector<std::string> saved_class_names(const Checkpoint& checkpoint) {
  const nlohmann::json& content = checkpoint.manifest.content;
  const auto found = content.is_object() ? content.find("class_names") : content.end();
  if (found == content.end() || !found->is_array()) return {};
  return found->get<std::vector<std::string>>();
}

InitialWeights open_initial_weights(const ModelSection& model, const ClassNames& data) {
  InitialWeights initial = open_weights(model, new_head_of(model));
  match_class_head(initial, model, data);
  return initial;
}

std::string describe_remedy(const ModelSection& model, const TensorMismatch& mismatch) {
  if (is_adapter_name(mismatch.tensor())) {
    return "set rank and targets of train.lora as in the run that wrote these adapters, or use the merged "
           "model of `trireme export RUN --out FILE` with new adapters";
  }
  const std::string_view head = family_of(model).class_head;
  if (head.empty() || !mismatch.tensor().starts_with(head)) return "";
  if (counts_classes(model) || family_of(model).detects)
    return "set model.new_head = true to initialize the classification layer";
  return fmt::format("the head of model.task = \"{}\" cannot be initialized: use weights of that task",
                     to_word(model.task));
}

}  // namespace trireme
