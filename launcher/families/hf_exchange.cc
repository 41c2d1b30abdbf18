#include "launcher/families/hf_exchange.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "launcher/families/model_family.h"
#include "launcher/train/run_checkpoint.h"
#include "parallel/run/checkpoint_state.h"
#include "runtime/adapter.h"
#include "runtime/base/error.h"
#include "runtime/checkpoint/hf_config.h"
#include "runtime/checkpoint/hf_source.h"
#include "runtime/checkpoint/safetensors_source.h"

namespace trireme {
namespace {

/// Head counts and rotary positions show in no tensor's shape: loaded into another model, the same weights
/// would compute something else.
void check_same_model(const ModelSection& model, const std::filesystem::path& folder) {
  ModelSection theirs = model_of_hf_folder(folder);
  const std::string path = (folder / kHfConfigFile).string();
  TRIREME_CHECK(theirs.name == model.name, "{} is of model.name = \"{}\", not \"{}\"", path, theirs.name,
                model.name);
  theirs.seq_len = model.seq_len;  // a choice of the training, where no tensor has that size
  theirs.dropout = model.dropout;  // likewise
  theirs.task = model.task;        // of the head alone
  theirs.classes = model.classes;
  const HfFormat& format = *family_of(model).hf;
  const nlohmann::ordered_json there = format.config(theirs), here = format.config(model);
  for (const auto& [key, value] : here.items()) {
    TRIREME_CHECK(there.at(key) == value,
                  "{} makes a model whose {} is {}, and that of this job is {}: model.from = \"hf:{}\" takes "
                  "the shape from there",
                  path, key, there.at(key).dump(), value.dump(), folder.string());
  }
}

NewHead new_head_of(const ModelSection& model) {
  const std::string prefix(family_of(model).class_head);
  if (model.new_head) return {.prefix = prefix, .when = NewHead::When::kAlways};
  return {.prefix = model.task == ModelTask::kClassify ? prefix : ""};
}

/// Weights from before there were adapters, which begin anew.
class WithNewAdapters final : public TensorSource {
 public:
  explicit WithNewAdapters(std::unique_ptr<TensorSource> weights) : weights_(std::move(weights)) {}

  std::string place() const override { return weights_->place(); }
  void check(std::span<const SafetensorsEntry> wanted) const override { weights_->check(wanted); }
  bool is_new(const std::string& name) const override {
    return is_adapter_name(name) || weights_->is_new(name);
  }
  void copy_floats(const std::string& name, std::uint64_t first, std::span<float> out) const override {
    weights_->copy_floats(name, first, out);
  }

 private:
  std::unique_ptr<TensorSource> weights_;
};

std::unique_ptr<TensorSource> open_file(const ModelSection& model, const std::filesystem::path& file,
                                        const NewHead& new_head) {
  auto weights = std::make_unique<SafetensorsSource>(file, new_head);
  const bool has_adapters =
      std::ranges::any_of(weights->file().tensors(), is_adapter_name, &SafetensorsTensor::name);
  TRIREME_CHECK(
      model.has_adapters() || !has_adapters,
      "{} has low-rank adapters, and the job has none: give it the train.lora of the run that made them, or "
      "take the merged model of `trireme export RUN --out FILE`",
      weights->place());
  if (!model.has_adapters() || has_adapters) return weights;
  return std::make_unique<WithNewAdapters>(std::move(weights));
}

/// Alpha shows in no tensor: with another one the same adapters would be another model.
void check_adapter_scale(const ModelSection& model, const Checkpoint& checkpoint) {
  const ModelSection there = read_run_state(checkpoint).config.model;
  TRIREME_CHECK(
      !there.has_adapters() || there.lora_alpha == model.lora_alpha,
      "{} was trained with train.lora.alpha = {}, and this job has {}, which makes another model of "
      "its adapters: set it to {}, or start from `trireme export`, which merges them",
      checkpoint.folder.string(), there.lora_alpha, model.lora_alpha, there.lora_alpha);
}

/// What config.json decides, checked before keys of the job come to it: it is to blame, not they.
ModelSection checked_shape(const ModelFamily& family, const HfConfig& config) {
  ModelSection model = family.hf->read(config);
  model.name = family.names.front();
  try {
    family.check(model);
  } catch (const Error& error) {
    throw Error(error.code(),
                fmt::format("{} makes no model of this build: {}", config.path().string(), error.what()),
                error.where());
  }
  return model;
}

}  // namespace

ModelSection model_of_hf_folder(const std::filesystem::path& folder) {
  const HfConfig config(folder);
  const std::string type = config.model_type();
  std::vector<std::string_view> known;
  for (const ModelFamily* family : model_families()) {
    if (family->hf == nullptr) continue;
    if (family->hf->model_type == type) return checked_shape(*family, config);
    known.push_back(family->hf->model_type);
  }
  throw Error(ErrorCode::kUnsupported, "{}: model_type is \"{:.100}\", and this build knows {}",
              config.path().string(), type, fmt::join(known, ", "));
}

HfModel hf_model_of(const ModelSection& model) {
  const HfFormat* format = family_of(model).hf;
  if (format == nullptr) {
    std::string known;
    for (const ModelFamily* family : model_families()) {
      if (family->hf != nullptr) known += (known.empty() ? "" : ", ") + std::string(family->plural);
    }
    throw Error(ErrorCode::kUnsupported, "a {} has no form in Hugging Face's format here; {} have",
                model.name, known);
  }
  return format->write(model);
}

std::unique_ptr<TensorSource> open_initial_weights(const ModelSection& model) {
  const std::filesystem::path place = model.init_from;
  std::error_code error;
  const NewHead new_head = new_head_of(model);
  if (!std::filesystem::is_directory(place, error)) return open_file(model, place, new_head);
  if (holds_checkpoint(place)) {
    const Checkpoint checkpoint = open_checkpoint_or_run(place);
    if (model.has_adapters()) check_adapter_scale(model, checkpoint);
    return open_file(model, checkpoint.folder / kModelFile, new_head);
  }
  check_same_model(model, place);
  auto weights = std::make_unique<HfSource>(place, hf_model_of(model), new_head);
  if (!model.has_adapters()) return weights;
  return std::make_unique<WithNewAdapters>(std::move(weights));
}

std::string describe_remedy(const ModelSection& model, const TensorMismatch& mismatch) {
  if (is_adapter_name(mismatch.tensor())) {
    return "give train.lora the rank and targets of the run that made these adapters, or take the merged "
           "model of "
           "`trireme export RUN --out FILE`, which gets new ones";
  }
  const std::string_view head = family_of(model).class_head;
  if (head.empty() || !mismatch.tensor().starts_with(head)) return "";
  if (counts_classes(model)) return "model.new_head = true draws the layer of classes anew";
  return fmt::format("the head of model.task = \"{}\" is not drawn anew: take weights of that task",
                     to_word(model.task));
}

}  // namespace trireme
