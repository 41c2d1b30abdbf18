#include "models/vit_hf.h"

#include <fmt/format.h>

#include "runtime/base/error.h"

namespace trireme {
namespace {

class Table {
 public:
  explicit Table(const VitConfig& config) : hidden_(config.hidden), ffn_(config.ffn) {}

  void add(std::string ours, std::string theirs, std::vector<std::int64_t> shape) {
    tensors.push_back({std::move(ours), {{std::move(theirs), std::move(shape)}}});
  }
  void add_norm(const std::string& ours, const std::string& theirs) {
    for (const char* part : {".weight", ".bias"}) add(ours + part, theirs + part, {hidden_});
  }
  void add_linear(const std::string& ours, const std::string& theirs, std::int64_t in, std::int64_t out) {
    add(ours + ".weight", theirs + ".weight", {out, in});
    add(ours + ".bias", theirs + ".bias", {out});
  }
  void add_layer(std::int64_t layer) {
    const std::string ours = fmt::format("encoder.layers.encoder_layer_{}.", layer),
                      theirs = fmt::format("vit.encoder.layer.{}.", layer);
    HfTensor weight{ours + "self_attention.in_proj_weight", {}},
        bias{ours + "self_attention.in_proj_bias", {}};
    for (const char* part : {"query", "key", "value"}) {
      const std::string name = theirs + "attention.attention." + part;
      weight.parts.push_back({name + ".weight", {hidden_, hidden_}});
      bias.parts.push_back({name + ".bias", {hidden_}});
    }
    tensors.push_back(std::move(weight));
    tensors.push_back(std::move(bias));
    add_linear(ours + "self_attention.out_proj", theirs + "attention.output.dense", hidden_, hidden_);
    add_linear(ours + "mlp.0", theirs + "intermediate.dense", hidden_, ffn_);
    add_linear(ours + "mlp.3", theirs + "output.dense", ffn_, hidden_);
    add_norm(ours + "ln_1", theirs + "layernorm_before");
    add_norm(ours + "ln_2", theirs + "layernorm_after");
  }

  std::vector<HfTensor> tensors;

 private:
  std::int64_t hidden_, ffn_;
};

}  // namespace

VitConfig vit_from_hf(const HfConfig& config) {
  constexpr std::int64_t kLabelsOfNone = 2;  // of a config.json without names of classes
  const VitConfig vit{.layers = config.count("num_hidden_layers", 12),
                      .hidden = config.count("hidden_size", 768),
                      .heads = config.count("num_attention_heads", 12),
                      .ffn = config.count("intermediate_size", 3072),
                      .patch = config.count("patch_size", 16),
                      .image_size = config.count("image_size", 224),
                      .classes = config.num_entries("id2label", kLabelsOfNone),
                      .norm_epsilon = config.positive("layer_norm_eps", 1e-12)};
  config.expect("hidden_act", "gelu");
  config.expect("num_channels", 3);
  config.expect("qkv_bias", true);
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
  nlohmann::ordered_json names = nlohmann::ordered_json::object(), numbers = names;
  for (std::int64_t i = 0; i < config.classes; ++i) {
    names[std::to_string(i)] = fmt::format("LABEL_{}", i);
    numbers[fmt::format("LABEL_{}", i)] = i;
  }
  return {{"architectures", {"ViTForImageClassification"}},
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
          {"num_labels", config.classes},
          {"id2label", std::move(names)},
          {"label2id", std::move(numbers)}};
}

HfModel vit_to_hf(const VitConfig& config) {
  Table table(config);
  const std::string embeddings = "vit.embeddings.", patches = embeddings + "patch_embeddings.projection.";
  table.add("class_token", embeddings + "cls_token", {1, 1, config.hidden});
  table.add("conv_proj.weight", patches + "weight", {config.hidden, 3, config.patch, config.patch});
  table.add("conv_proj.bias", patches + "bias", {config.hidden});
  table.add("encoder.pos_embedding", embeddings + "position_embeddings",
            {1, config.num_tokens(), config.hidden});
  for (std::int64_t i = 0; i < config.layers; ++i) table.add_layer(i);
  table.add_norm("encoder.ln", "vit.layernorm");
  table.add_linear("heads.head", "classifier", config.hidden, config.classes);
  return {.config = vit_hf_config(config),
          .prefix = "vit.",
          .tensors = std::move(table.tensors),
          .passed_over = {"pooler.dense.weight", "pooler.dense.bias"}};
}

}  // namespace trireme
