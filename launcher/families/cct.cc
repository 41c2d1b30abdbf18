// Compact convolutional transformers, for small images.
#include "models/cct.h"

#include "launcher/data/image_data.h"
#include "launcher/families/image_model.h"
#include "launcher/families/model_family.h"
#include "launcher/families/tensor_chunks.h"

namespace trireme {
namespace {

constexpr std::string_view kNames[] = {"cct"};
constexpr std::string_view kKeys[] = {"size",
                                      "layers",
                                      "hidden",
                                      "heads",
                                      "ffn",
                                      "image_size",
                                      "convs",
                                      "classes",
                                      "new_head",
                                      "dropout",
                                      "stochastic_depth",
                                      "label_smoothing",
                                      "tensor_chunks"};

CctConfig sized(const ModelSection& model) {
  return model.size.empty() ? CctConfig{.ffn = 0} : cct_config_for_size(model.size);
}

void check(const ModelSection& model) {
  const CctConfig base = sized(model);
  check_image_shape(model, {.hidden = base.hidden, .heads = base.heads});
}

void fill_in(JobConfig& config) {
  ModelSection& model = config.model;
  const CctConfig base = sized(model);
  const auto fill = [](std::int64_t& number, std::int64_t value) {
    if (number == 0) number = value;
  };
  fill(model.layers, base.layers);
  fill(model.hidden, base.hidden);
  fill(model.heads, base.heads);
  fill(model.ffn, base.ffn > 0 ? base.ffn : model.hidden);
  check_divided(model, {"ffn", model.ffn});
  fill(model.convs, base.convs);
  fill(model.classes, default_classes(config, base.classes));
  fill_in_image_size(config, base.image_size);
}

BlockList build(const ModelSection& model) {
  return build_cct({.layers = model.layers,
                    .hidden = model.hidden,
                    .heads = model.heads,
                    .ffn = model.ffn,
                    .convs = model.convs,
                    .image_size = model.image_size,
                    .classes = model.classes,
                    .dropout = static_cast<float>(model.dropout),
                    .stochastic_depth = static_cast<float>(model.stochastic_depth),
                    .label_smoothing = static_cast<float>(model.label_smoothing),
                    .tensor_chunks = static_cast<int>(model.tensor_chunks)});
}

std::string describe(const JobConfig& config) {
  const ModelSection& model = config.model;
  return fmt::format("{}, images of {} x {} through {} convolutions", image_transformer_text(model),
                     model.image_size, model.image_size, model.convs);
}

}  // namespace

extern constexpr ModelFamily kCctFamily{.plural = "CCTs",
                                        .names = kNames,
                                        .sizes = kCctSizes,
                                        .keys = kKeys,
                                        .data = kImageData,
                                        .has_class_logits = true,
                                        .class_head = "head.fc.",
                                        .class_layer = "head.fc.",
                                        .check = check,
                                        .fill_in = fill_in,
                                        .build = build,
                                        .describe = describe,
                                        .variant = [](const ModelSection&) { return std::string(); }};

}  // namespace trireme
