// UNets of diffusion models, on images or latents.
#include "models/unet.h"

#include <fmt/ranges.h>

#include "launcher/data/diffusion_data.h"
#include "launcher/families/model_family.h"
#include "models/unet_diffusers.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr std::string_view kNames[] = {"unet"};
constexpr std::string_view kKeys[] = {
    "from",    "size",        "channels",        "widths",     "layers",     "attention_levels",
    "heads",   "head_width",  "condition_width", "seq_len",    "projection", "style",
    "classes", "norm_groups", "norm_epsilon",    "image_size", "dropout"};
constexpr std::string_view kDdpmStyle = "ddpm", kLatentStyle = "latent";
constexpr std::string_view kLinear = "linear", kConv = "conv";
constexpr std::int64_t kTextVectors = 77;  // of Stable Diffusion's text encoders

UnetConfig unet_base(const ModelSection& model) {
  if (!model.size.empty()) return unet_config_for_size(model.size);
  UnetConfig config;
  config.widths.clear();
  config.attention_levels.clear();
  return config;
}

/// The shape of model.size with the keys that the job gives.
UnetConfig unet_config(const ModelSection& model) {
  UnetConfig config = unet_base(model);
  const auto take = [](std::int64_t& number, std::int64_t given) {
    if (given > 0) number = given;
  };
  take(config.channels, model.channels);
  take(config.layers, model.layers);
  take(config.condition_width, model.condition_width);
  take(config.classes, model.classes);
  take(config.norm_groups, model.norm_groups);
  if (!model.widths.empty()) config.widths = model.widths;
  if (!model.attention_levels.empty()) config.attention_levels = model.attention_levels;
  if (model.heads > 0 || model.head_width > 0) {
    config.heads = model.heads;
    config.head_width = model.head_width;
  }
  if (!model.projection.empty()) config.linear_projection = model.projection == kLinear;
  if (!model.style.empty()) {
    config.style = model.style == kDdpmStyle ? UnetStyle::kDdpm : UnetStyle::kLatent;
  }
  if (model.norm_epsilon > 0) config.norm_epsilon = model.norm_epsilon;
  config.dropout = static_cast<float>(model.dropout);
  return config;
}

void check_keys(const ModelSection& model) {
  TRIREME_CHECK(!model.size.empty() || !model.widths.empty(),
                "the model has no shape: give model.size, or model.widths");
  check_unet(unet_config(model));
}

/// Copies the shape to the keys of a section.
void put_shape(const UnetConfig& config, ModelSection& model) {
  model.channels = config.channels;
  model.widths = config.widths;
  model.layers = config.layers;
  model.attention_levels = config.attention_levels;
  model.heads = config.heads;
  model.head_width = config.head_width;
  model.condition_width = config.condition_width;
  model.projection = config.linear_projection ? kLinear : kConv;
  model.style = config.style == UnetStyle::kDdpm ? kDdpmStyle : kLatentStyle;
  model.classes = config.classes;
  model.norm_groups = config.norm_groups;
  model.norm_epsilon = config.norm_epsilon;
}

void fill_in_shape(JobConfig& config) {
  ModelSection& model = config.model;
  const UnetConfig unet = unet_config(model);
  put_shape(unet, model);
  check_diffusion(config);
  if (unet.condition_width > 0 && model.seq_len == 0) model.seq_len = kTextVectors;
  // The network takes images of any size; the data decides.
  std::int64_t& size = config.data.image_size;
  if (size == 0) size = model.image_size > 0 ? model.image_size : (unet.condition_width > 0 ? 64 : 32);
  model.image_size = size;
  TRIREME_CHECK(size % unet.side_factor() == 0,
                "data.image_size = {0} is not a multiple of {1}, as the {2} levels of the network halve the "
                "image {3} times: {4} is",
                size, unet.side_factor(), unet.num_levels(), unet.num_levels() - 1,
                (size / unet.side_factor() + 1) * unet.side_factor());
}

BlockList build_blocks_of(const ModelSection& model) {
  return build_unet(unet_config(model));
}

ModelSection read_diffusers(const HfConfig& config) {
  ModelSection model;
  put_shape(unet_from_diffusers(config), model);
  if (config.has("sample_size") && !config.is_list("sample_size")) {
    model.image_size = config.count("sample_size");
  }
  return model;
}

constexpr std::string_view kDiffusersClasses[] = {kUnet2dClass, kUnet2dConditionClass};
constexpr HfFormat kDiffusers{
    .model_types = kDiffusersClasses,
    .read = read_diffusers,
    .config =
        [](const ModelSection& model) { return unet_diffusers_config(unet_config(model), model.image_size); },
    .write =
        [](const ModelSection& model) { return unet_to_diffusers(unet_config(model), model.image_size); },
    .library = HfLibrary::kDiffusers};

std::string describe_shape(const JobConfig& config) {
  const ModelSection& model = config.model;
  const std::string condition = model.condition_width > 0 ? fmt::format(", condition of {} vectors of {}",
                                                                        model.seq_len, model.condition_width)
                                                          : "";
  const std::string classes = model.classes > 0 ? fmt::format(", {} classes", model.classes) : "";
  return fmt::format(
      "levels of {} channels, {} units each, attention at levels {}, images of {} x {} x {}{}{}",
      fmt::join(model.widths, ", "), model.layers, fmt::join(model.attention_levels, ", "), model.image_size,
      model.image_size, model.channels, condition, classes);
}

std::string heads_variant(const ModelSection& model) {
  return fmt::format(", heads {} of {}", model.heads, model.head_width);
}

}  // namespace

extern constexpr ModelFamily kUnetFamily{.plural = "UNets",
                                         .names = kNames,
                                         .sizes = kUnetSizes,
                                         .keys = kKeys,
                                         .data = kDiffusionData,
                                         .makes_pictures = true,
                                         .tensor_obstacle = "convolutions are not cut into tensor chunks",
                                         .check = check_keys,
                                         .fill_in = fill_in_shape,
                                         .build = build_blocks_of,
                                         .describe = describe_shape,
                                         .variant = heads_variant,
                                         .hf = &kDiffusers};

}  // namespace trireme
