#include "models/vit_hf.h"

#include <fmt/format.h>

#include <array>

#include "models/encoder_hf.h"
#include "runtime/base/error.h"
#include "runtime/checkpoint/hf_labels.h"

namespace trireme {
namespace {

constexpr std::array<std::string_view, 2> kClasses{kVitHfClassifier, "ViTModel"};

constexpr std::string_view kOtherHeads[] = {"encoder_stride", "pooler_output_size", "pooler_act"};
constexpr HfIdleKeys kIdle[] = {{"heads other than the classes", kOtherHeads}};

void add_layer(EncoderHfTable& table, std::int64_t layer, const VitConfig& config) {
  const std::string ours = fmt::format("encoder.layers.encoder_layer_{}.", layer),
                    theirs = fmt::format("vit.encoder.layer.{}.", layer);
  table.add_qkv(ours + "self_attention.in_proj_weight", ours + "self_attention.in_proj_bias",
                theirs + "attention.attention.");
  table.add_linear(ours + "self_attention.out_proj", theirs + "attention.output.dense", config.hidden,
                   config.hidden);
  table.add_linear(ours + "mlp.0", theirs + "intermediate.dense", config.hidden, config.ffn);
  table.add_linear(ours + "mlp.3", theirs + "output.dense", config.ffn, config.hidden);
  table.add_norm(ours + "ln_1", theirs + "layernorm_before");
  table.add_norm(ours + "ln_2", theirs + "layernorm_after");
}

}  // namespace

VitConfig vit_from_hf(const HfConfig& config) {
  config.architecture(kClasses);
  const HfLabels labels = read_classes(config);
  const VitConfig vit{.layers = config.count("num_hidden_layers", 12),
                      .hidden = config.count("hidden_size", 768),
                      .heads = config.count("num_attention_heads", 12),
                      .ffn = config.count("intermediate_size", 3072),
                      .patch = config.count("patch_size", 16),
                      .image_size = config.count("image_size", 224),
                      .classes = labels.count > 0 ? labels.count : kDefaultHfLabels,
                      .norm_epsilon = config.positive("layer_norm_eps", 1e-12)};
  config.expect("hidden_act", "gelu");
  config.expect("num_channels", 3);
  config.expect("qkv_bias", true);
  config.expect("head_dim", vit.hidden / vit.heads);
  config.settle(kIdle);
  return vit;
}

nlohmann::ordered_json vit_hf_config(const VitConfig& config) {
  if (config.pool != TokenPool::kClassToken) {
    throw Error(
        ErrorCode::kUnsupported,
        "ViTForImageClassification reads the classes from a class token: a ViT that pools by the mean "
        "has no form in Hugging Face's format");
  }
  const double dropout = static_cast<double>(config.dropout);
  nlohmann::ordered_json json = {{"architectures", {kVitHfClassifier}},
                                 {"model_type", kVitHfType},
                                 {"image_size", config.image_size},
                                 {"patch_size", config.patch},
                                 {"num_channels", 3},
                                 {"hidden_size", config.hidden},
                                 {"num_hidden_layers", config.layers},
                                 {"num_attention_heads", config.heads},
                                 {"intermediate_size", config.ffn},
                                 {"hidden_act", "gelu"},
                                 {"layer_norm_eps", config.norm_epsilon},
                                 {"qkv_bias", true},
                                 {"hidden_dropout_prob", dropout},
                                 {"attention_probs_dropout_prob", dropout},
                                 {"num_labels", config.classes}};
  set_labels(json, config.classes, {});
  return json;
}

HfModel vit_to_hf(const VitConfig& config) {
  EncoderHfTable table(config.hidden);
  const std::string embeddings = "vit.embeddings.", patches = embeddings + "patch_embeddings.projection.";
  table.add("class_token", embeddings + "cls_token", {1, 1, config.hidden});
  table.add("conv_proj.weight", patches + "weight", {config.hidden, 3, config.patch, config.patch});
  table.add("conv_proj.bias", patches + "bias", {config.hidden});
  table.add("encoder.pos_embedding", embeddings + "position_embeddings",
            {1, config.num_tokens(), config.hidden});
  for (std::int64_t i = 0; i < config.layers; ++i) add_layer(table, i, config);
  table.add_norm("encoder.ln", "vit.layernorm");
  table.add_linear("heads.head", "classifier", config.hidden, config.classes);
  return {.config = vit_hf_config(config),
          .prefix = "vit.",
          .tensors = std::move(table.tensors),
          .unused = {"vit.pooler.dense."},
          .module_names = {{"vit.encoder.layer.", "vit.layers."},  // transformers 5
                           {".attention.attention.query", ".attention.q_proj"},
                           {".attention.attention.key", ".attention.k_proj"},
                           {".attention.attention.value", ".attention.v_proj"},
                           {".attention.output.dense", ".attention.o_proj"},
                           {".intermediate.dense", ".mlp.fc1"},
                           {".output.dense", ".mlp.fc2"}}};
}

}  // namespace trireme
