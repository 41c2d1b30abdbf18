// Vision transformers.
#include "models/vit.h"

#include "launcher/data/image_data.h"
#include "launcher/families/image_model.h"
#include "launcher/families/model_family.h"
#include "launcher/families/tensor_chunks.h"
#include "models/vit_hf.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr std::string_view kNames[] = {"vit"};
constexpr std::string_view kKeys[] = {"from",
                                      "size",
                                      "layers",
                                      "hidden",
                                      "heads",
                                      "ffn",
                                      "image_size",
                                      "patch",
                                      "pool",
                                      "classes",
                                      "new_head",
                                      "norm_epsilon",
                                      "dropout",
                                      "stochastic_depth",
                                      "label_smoothing",
                                      "tensor_chunks"};

VitConfig sized(const ModelSection& model) {
  return model.size.empty() ? VitConfig{.ffn = 0} : vit_config_for_size(model.size);
}

void check_patches(const char* section, std::int64_t image_size, std::int64_t patch) {
  TRIREME_CHECK(
      image_size >= patch,
      "{0}.image_size = {1}: an image of {1} x {1} pixels is smaller than a patch of model.patch = {2}: "
      "take larger images or smaller patches",
      section, image_size, patch);
  TRIREME_CHECK(image_size % patch == 0,
                "{}.image_size = {}: this side is not a multiple of model.patch = {} pixels: {} or "
                "{} is",
                section, image_size, patch, image_size / patch * patch, (image_size / patch + 1) * patch);
}

void check(const ModelSection& model) {
  const VitConfig base = sized(model);
  check_image_shape(model, {.hidden = base.hidden, .heads = base.heads});
  const std::int64_t patch = model.patch > 0 ? model.patch : base.patch;
  if (model.image_size > 0) check_patches("model", model.image_size, patch);
}

void fill_in(JobConfig& config) {
  ModelSection& model = config.model;
  const VitConfig base = sized(model);
  const auto fill = [](auto& number, auto value) {
    if (number == 0) number = value;
  };
  fill(model.layers, base.layers);
  fill(model.hidden, base.hidden);
  fill(model.heads, base.heads);
  fill(model.ffn, base.ffn > 0 ? base.ffn : 4 * model.hidden);
  check_divided(model, {"ffn", model.ffn});
  fill(model.patch, base.patch);
  fill(model.classes, default_classes(config, base.classes));
  fill(model.norm_epsilon, 1e-6);
  const bool from_data = model.image_size == 0 && config.data.image_size > 0;
  fill_in_image_size(config, base.image_size);
  check_patches(from_data ? "data" : "model", model.image_size, model.patch);
}

VitConfig vit_config(const ModelSection& model) {
  return {.layers = model.layers,
          .hidden = model.hidden,
          .heads = model.heads,
          .ffn = model.ffn,
          .patch = model.patch,
          .image_size = model.image_size,
          .classes = model.classes,
          .pool = model.pool == "mean" ? TokenPool::kMean : TokenPool::kClassToken,
          .norm_epsilon = model.norm_epsilon,
          .dropout = static_cast<float>(model.dropout),
          .stochastic_depth = static_cast<float>(model.stochastic_depth),
          .label_smoothing = static_cast<float>(model.label_smoothing),
          .tensor_chunks = static_cast<int>(model.tensor_chunks)};
}

BlockList build(const ModelSection& model) {
  return build_vit(vit_config(model));
}

ModelSection read_hf(const HfConfig& config) {
  const VitConfig vit = vit_from_hf(config);
  ModelSection model;
  model.layers = vit.layers;
  model.hidden = vit.hidden;
  model.heads = vit.heads;
  model.ffn = vit.ffn;
  model.image_size = vit.image_size;
  model.patch = vit.patch;
  model.classes = vit.classes;
  model.norm_epsilon = vit.norm_epsilon;
  return model;
}

constexpr std::string_view kHfTypes[] = {kVitHfType};
constexpr HfFormat kHf{.model_types = kHfTypes,
                       .read = read_hf,
                       .config = [](const ModelSection& model) { return vit_hf_config(vit_config(model)); },
                       .write = [](const ModelSection& model) { return vit_to_hf(vit_config(model)); },
                       .classifier = kVitHfClassifier};

std::string describe(const JobConfig& config) {
  const ModelSection& model = config.model;
  return fmt::format("{}, images of {} x {} in patches of {} x {}", image_transformer_text(model),
                     model.image_size, model.image_size, model.patch, model.patch);
}

}  // namespace

extern constexpr ModelFamily kVitFamily{
    .plural = "ViTs",
    .names = kNames,
    .sizes = kVitSizes,
    .keys = kKeys,
    .data = kImageData,
    .has_class_logits = true,
    .class_head = "heads.head.",
    .class_layer = "heads.head.",
    .check = check,
    .fill_in = fill_in,
    .build = build,
    .describe = describe,
    .variant = [](const ModelSection& model) { return ", pool " + model.pool; },
    .hf = &kHf};

}  // namespace trireme
