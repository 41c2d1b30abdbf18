#include "models/unet_diffusers.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr std::string_view kNoEffect[] = {"_diffusers_version", "_name_or_path", "sample_size"};
constexpr std::string_view kOfTraining[] = {"dropout"};
constexpr std::string_view kOfOtherEmbeddings[] = {"addition_embed_type_num_heads", "addition_time_embed_dim",
                                                   "num_train_timesteps",
                                                   "projection_class_embeddings_input_dim"};
constexpr std::string_view kRounding[] = {"upcast_attention"};
constexpr HfIdleKeys kIdle[] = {{"a name or a size that no tensor has", kNoEffect},
                                {"a choice of the training", kOfTraining},
                                {"for embeddings that are refused by their own keys", kOfOtherEmbeddings},
                                {"attention sums in fp32 in every precision", kRounding}};

/// The names of one class's blocks, with attention and without.
struct BlockNames {
  std::string down, down_attention, up, up_attention, middle;
};

BlockNames block_names(bool conditional) {
  if (conditional) {
    return {"DownBlock2D", "CrossAttnDownBlock2D", "UpBlock2D", "CrossAttnUpBlock2D",
            "UNetMidBlock2DCrossAttn"};
  }
  return {"DownBlock2D", "AttnDownBlock2D", "UpBlock2D", "AttnUpBlock2D", "UNetMidBlock2D"};
}

std::vector<std::string> up_types(const UnetConfig& config, const BlockNames& names) {
  std::vector<std::string> types;
  for (std::int64_t level = config.num_levels() - 1; level >= 0; --level) {
    types.push_back(config.has_attention(level) ? names.up_attention : names.up);
  }
  return types;
}

std::vector<std::string> down_types(const UnetConfig& config, const BlockNames& names) {
  std::vector<std::string> types;
  for (std::int64_t level = 0; level < config.num_levels(); ++level) {
    types.push_back(config.has_attention(level) ? names.down_attention : names.down);
  }
  return types;
}

void read_levels(const HfConfig& config, UnetConfig& unet, const BlockNames& names) {
  const std::vector<std::string> down = config.texts("down_block_types");
  if (down.size() != unet.widths.size())
    config.refuse_contradiction("down_block_types", "block_out_channels");
  unet.attention_levels.clear();
  for (std::size_t level = 0; level < down.size(); ++level) {
    if (down[level] == names.down_attention) {
      unet.attention_levels.push_back(static_cast<std::int64_t>(level));
    } else if (down[level] != names.down) {
      config.refuse("down_block_types", fmt::format("{} and {}", names.down, names.down_attention));
    }
  }
  config.expect("up_block_types", up_types(unet, names));
  config.expect("mid_block_type", names.middle);
}

/// In UNet2DModel, attention_head_dim is the width of a head, and null means one head.
void read_head_width(const HfConfig& config, UnetConfig& unet) {
  constexpr std::int64_t kDefault = 8;
  if (!config.is_null("attention_head_dim")) unet.head_width = config.count("attention_head_dim", kDefault);
}

/// In UNet2DConditionModel, attention_head_dim is the number of heads, of all levels or of each.
void read_heads(const HfConfig& config, UnetConfig& unet) {
  config.expect("num_attention_heads", nullptr);
  if (!config.is_list("attention_head_dim")) {
    unet.heads = config.count("attention_head_dim", 8);
    return;
  }
  const std::vector<std::int64_t> heads = config.counts("attention_head_dim");
  if (heads.size() != unet.widths.size())
    config.refuse_contradiction("attention_head_dim", "block_out_channels");
  if (std::ranges::all_of(heads, [&](std::int64_t count) { return count == heads[0]; })) {
    unet.heads = heads[0];
    return;
  }
  unet.head_width = unet.widths[0] / heads[0];
  for (std::size_t level = 0; level < heads.size(); ++level) {
    if (unet.widths[level] != heads[level] * unet.head_width) {
      config.refuse("attention_head_dim", "one number of heads, or heads of one width");
    }
  }
}

void read_style(const HfConfig& config, UnetConfig& unet) {
  unet.style = config.flag("flip_sin_to_cos", true) ? UnetStyle::kLatent : UnetStyle::kDdpm;
  const int of_ddpm = unet.style == UnetStyle::kDdpm ? 1 : 0;
  config.expect("freq_shift", of_ddpm, 0);
  config.expect("downsample_padding", 1 - of_ddpm, 1);
}

/// Values that this build has only one of, for both classes.
void expect_common(const HfConfig& config, const UnetConfig& unet) {
  config.expect("out_channels", unet.channels);
  config.expect("center_input_sample", false);
  config.expect("time_embedding_type", "positional");
  config.expect("time_embedding_dim", nullptr);
  config.expect("mid_block_scale_factor", 1);
  if (config.text("act_fn", "silu") != "swish") config.expect("act_fn", "silu");
  config.expect("resnet_time_scale_shift", "default");
  config.expect("class_embed_type", nullptr);
}

void expect_unconditional(const HfConfig& config, const UnetConfig& unet) {
  config.expect("downsample_type", "conv");
  config.expect("upsample_type", "conv");
  config.expect("attn_norm_num_groups", unet.norm_groups);
  config.expect("add_attention", true);
}

void expect_conditional(const HfConfig& config) {
  for (const char* key : {"reverse_transformer_layers_per_block", "encoder_hid_dim", "encoder_hid_dim_type",
                          "addition_embed_type", "time_embedding_act_fn", "timestep_post_act",
                          "time_cond_proj_dim", "cross_attention_norm"}) {
    config.expect(key, nullptr);
  }
  for (const char* key : {"only_cross_attention", "dual_cross_attention", "resnet_skip_time_act",
                          "class_embeddings_concat", "mid_block_only_cross_attention"}) {
    config.expect(key, false);
  }
  config.expect("transformer_layers_per_block", 1);
  config.expect("resnet_out_scale_factor", 1);
  config.expect("conv_in_kernel", 3);
  config.expect("conv_out_kernel", 3);
  config.expect("attention_type", "default");
}

/// The heads of each level for UNet2DConditionModel, or the width of all heads for UNet2DModel.
nlohmann::ordered_json head_setting(const UnetConfig& config) {
  if (config.condition_width == 0) {
    if (config.heads > 1) {
      throw Error(ErrorCode::kUnsupported,
                  "diffusers' {} has heads of one width, not {} heads at every level: set head_width instead",
                  kUnet2dClass, config.heads);
    }
    return config.head_width > 0 ? nlohmann::ordered_json(config.head_width) : nlohmann::ordered_json();
  }
  if (config.head_width == 0) return config.heads_of(config.widths[0]);
  nlohmann::ordered_json heads = nlohmann::ordered_json::array();
  for (const std::int64_t width : config.widths) heads.push_back(config.heads_of(width));
  return heads;
}

std::vector<std::int64_t> dims_of(const Shape& shape) {
  std::vector<std::int64_t> dims;
  for (int i = 0; i < shape.rank(); ++i) dims.push_back(shape[i]);
  return dims;
}

HfTensor tensor_of(const std::string& name, std::vector<std::int64_t> shape) {
  static constexpr std::string_view kPacked = ".to_qkv.";
  const std::size_t at = name.find(kPacked);
  if (at == std::string::npos) return {name, {{name, std::move(shape)}}};
  HfTensor tensor{name, {}};
  shape[0] /= 3;
  for (const std::string_view part : {".to_q.", ".to_k.", ".to_v."}) {
    tensor.parts.push_back({std::string(name).replace(at, kPacked.size(), part), shape});
  }
  return tensor;
}

}  // namespace

UnetConfig unet_from_diffusers(const HfConfig& config) {
  const bool conditional = config.model_type() == kUnet2dConditionClass;
  UnetConfig unet{.channels = config.count("in_channels", conditional ? 4 : 3),
                  .widths = config.counts("block_out_channels"),
                  .layers = config.count("layers_per_block", 2),
                  .condition_width = conditional ? config.count("cross_attention_dim", 1280) : 0,
                  .linear_projection = conditional && config.flag("use_linear_projection", false),
                  .classes = config.has("num_class_embeds") ? config.count("num_class_embeds") : 0,
                  .norm_groups = config.count("norm_num_groups", 32),
                  .norm_epsilon = config.positive("norm_eps", 1e-5)};
  if (unet.widths.empty()) config.refuse("block_out_channels", "networks with levels");
  read_levels(config, unet, block_names(conditional));
  read_style(config, unet);
  expect_common(config, unet);
  if (conditional) {
    read_heads(config, unet);
    expect_conditional(config);
  } else {
    read_head_width(config, unet);
    expect_unconditional(config, unet);
  }
  config.settle(kIdle);
  return unet;
}

nlohmann::ordered_json unet_diffusers_config(const UnetConfig& config, std::int64_t image_size) {
  const bool conditional = config.condition_width > 0, ddpm = config.style == UnetStyle::kDdpm;
  const BlockNames names = block_names(conditional);
  nlohmann::ordered_json json = {
      {"_class_name", conditional ? kUnet2dConditionClass : kUnet2dClass},
      {"_diffusers_version", kDiffusersVersion},
      {"sample_size", image_size > 0 ? nlohmann::ordered_json(image_size) : nlohmann::ordered_json()},
      {"in_channels", config.channels},
      {"out_channels", config.channels},
      {"down_block_types", down_types(config, names)},
      {"mid_block_type", names.middle},
      {"up_block_types", up_types(config, names)},
      {"block_out_channels", config.widths},
      {"layers_per_block", config.layers},
      {"attention_head_dim", head_setting(config)},
      {"num_class_embeds",
       config.classes > 0 ? nlohmann::ordered_json(config.classes) : nlohmann::ordered_json()},
      {"norm_num_groups", config.norm_groups},
      {"norm_eps", config.norm_epsilon},
      {"act_fn", "silu"},
      {"dropout", static_cast<double>(config.dropout)},
      {"time_embedding_type", "positional"},
      {"flip_sin_to_cos", !ddpm},
      {"freq_shift", ddpm ? 1 : 0},
      {"downsample_padding", ddpm ? 0 : 1},
      {"resnet_time_scale_shift", "default"}};
  if (conditional) {
    json["cross_attention_dim"] = config.condition_width;
    json["use_linear_projection"] = config.linear_projection;
    json["transformer_layers_per_block"] = 1;
  }
  return json;
}

HfModel unet_to_diffusers(const UnetConfig& config, std::int64_t image_size) {
  HfModel model{.config = unet_diffusers_config(config, image_size),
                .prefix = "",
                .tensors = {},
                .copies = {},
                .derived = {},
                .unused = {},
                .library = HfLibrary::kDiffusers};
  for (const auto& block : build_unet(config)) {
    for (const ParameterSpec& spec : block->parameters()) {
      model.tensors.push_back(tensor_of(block->full_name(spec), dims_of(spec.shape)));
    }
  }
  return model;
}

}  // namespace trireme
