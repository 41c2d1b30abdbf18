#include "models/llama_hf.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <tuple>

#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr double kTheirEpsilon = 1e-6;  // if config.json has none
constexpr std::int64_t kMaxContext = 2048;

constexpr std::int64_t kMistralKvHeads = 8, kQwenKvHeads = 32, kQwen3HeadDim = 128;  // likewise

constexpr std::string_view kClasses[] = {"LlamaForCausalLM", "LlamaModel", "MistralForCausalLM",
                                         "MistralModel"};
constexpr std::string_view kQwen2Classes[] = {"Qwen2ForCausalLM", "Qwen2Model"};
constexpr std::string_view kQwen3Classes[] = {"Qwen3ForCausalLM", "Qwen3Model"};

constexpr std::string_view kOtherHeads[] = {"num_labels", "_num_labels", "id2label", "label2id",
                                            "problem_type"};
constexpr std::string_view kWindows[] = {"sliding_window", "max_window_layers"};
constexpr HfIdleKeys kIdle[] = {{"heads that a language model does not have", kOtherHeads}};
constexpr HfIdleKeys kQwenIdle[] = {kIdle[0], {"windows, which use_sliding_window turns off", kWindows}};

std::vector<HfTensor> tensors_of(const LlamaConfig& config) {
  const std::int64_t hidden = config.hidden, head_dim = config.head_dim();
  const std::int64_t q = config.heads * head_dim, kv = config.kv_heads * head_dim;
  std::vector<HfTensor> tensors{
      {"embedding.tokens", {{"model.embed_tokens.weight", {config.vocab, hidden}}}}};
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const std::string ours = fmt::format("blocks.{}.", i), theirs = fmt::format("model.layers.{}.", i);
    const std::string attention = theirs + "self_attn.";
    tensors.insert(tensors.end(),
                   {{ours + "norm1.weight", {{theirs + "input_layernorm.weight", {hidden}}}},
                    {ours + "attention.qkv.weight",
                     {{attention + "q_proj.weight", {q, hidden}},
                      {attention + "k_proj.weight", {kv, hidden}},
                      {attention + "v_proj.weight", {kv, hidden}}}},
                    {ours + "attention.out.weight", {{attention + "o_proj.weight", {hidden, q}}}},
                    {ours + "norm2.weight", {{theirs + "post_attention_layernorm.weight", {hidden}}}},
                    {ours + "mlp.gate_up.weight",
                     {{theirs + "mlp.gate_proj.weight", {config.ffn, hidden}},
                      {theirs + "mlp.up_proj.weight", {config.ffn, hidden}}}},
                    {ours + "mlp.down.weight", {{theirs + "mlp.down_proj.weight", {hidden, config.ffn}}}}});
    if (config.qkv_bias) {
      tensors.push_back({ours + "attention.qkv.bias",
                         {{attention + "q_proj.bias", {q}},
                          {attention + "k_proj.bias", {kv}},
                          {attention + "v_proj.bias", {kv}}}});
    }
    if (config.qk_norm != QkNorm::kNone) {
      for (const std::string norm : {"q_norm.weight", "k_norm.weight"}) {
        tensors.push_back({ours + "attention." + norm, {{attention + norm, {head_dim}}}});
      }
    }
  }
  tensors.push_back({"head.norm.weight", {{"model.norm.weight", {hidden}}}});
  if (!config.tied) tensors.push_back({"head.weight", {{"lm_head.weight", {config.vocab, hidden}}}});
  return tensors;
}

struct Rope {
  double theta;
  ops::RopeScaling scaling;

  bool operator==(const Rope& other) const {
    const auto all = [](const Rope& rope) {
      return std::tuple(rope.theta, rope.scaling.factor, rope.scaling.low_freq_factor,
                        rope.scaling.high_freq_factor, rope.scaling.original_context);
    };
    return all(*this) == all(other);
  }
};

/// The rotary base: a member of the object `rope`, or of `config` in older files.
double read_theta(const HfConfig& config, const HfConfig& rope, const std::string& form) {
  constexpr double kDefault = 10000.0;
  if (!rope.has("rope_theta")) return config.positive("rope_theta", kDefault);
  const double theta = rope.positive("rope_theta", kDefault);
  if (config.has("rope_theta") && config.positive("rope_theta", theta) != theta) {
    config.refuse_contradiction("rope_theta", form + ".rope_theta");
  }
  return theta;
}

/// Reads the object named `form`, and the keys that older files have outside of it.
Rope read_rope(const HfConfig& config, const std::string& form) {
  const HfConfig rope = config.object(form);
  Rope read{.theta = read_theta(config, rope, form), .scaling = {}};
  rope.expect("partial_rotary_factor", 1.0);
  if (rope.has("rope_type") && rope.has("type") && rope.text("type", "") != rope.text("rope_type", "")) {
    config.refuse_contradiction(form, "itself in type and rope_type");
  }
  const std::string type_key = !rope.has("rope_type") && rope.has("type") ? "type" : "rope_type";
  const std::string type = rope.text(type_key, "default");
  if (type == "default") return read;
  if (type != "llama3") rope.refuse(type_key, "\"default\" and \"llama3\"");
  const auto required = [&](const char* key) {
    if (!rope.has(key)) rope.refuse(key, "\"llama3\" with a number there");
    return rope.positive(key, 1.0);
  };
  read.scaling = {.factor = required("factor"),
                  .low_freq_factor = required("low_freq_factor"),
                  .high_freq_factor = required("high_freq_factor"),
                  .original_context = rope.count("original_max_position_embeddings")};
  config.expect("original_max_position_embeddings", read.scaling.original_context);
  return read;
}

/// Reads "rope_parameters" or "rope_scaling"; the name depends on the version of transformers.
Rope read_rope(const HfConfig& config) {
  config.expect("partial_rotary_factor", 1.0);
  if (!config.has("rope_parameters")) return read_rope(config, "rope_scaling");
  Rope rope = read_rope(config, "rope_parameters");
  if (config.has("rope_scaling") && !(read_rope(config, "rope_scaling") == rope)) {
    config.refuse_contradiction("rope_scaling", "rope_parameters");
  }
  return rope;
}

nlohmann::ordered_json rope_scaling_json(const ops::RopeScaling& scaling) {
  if (scaling.factor == 1.0) return nullptr;
  return {{"rope_type", "llama3"},
          {"factor", scaling.factor},
          {"low_freq_factor", scaling.low_freq_factor},
          {"high_freq_factor", scaling.high_freq_factor},
          {"original_max_position_embeddings", scaling.original_context}};
}

/// A window of the whole context hides nothing.
void check_mistral_window(const HfConfig& config) {
  if (!config.has("sliding_window")) return;
  const std::int64_t context = config.count("max_position_embeddings", kMaxContext);
  if (config.count("sliding_window") < context) config.refuse("sliding_window", "null, or the whole context");
}

bool is_qwen(const HfConfig& config) {
  return config.model_type() == kQwen2HfType || config.model_type() == kQwen3HfType;
}

void check_qwen_window(const HfConfig& config) {
  constexpr std::string_view kFull = "full_attention";
  config.expect("use_sliding_window", false);
  if (!config.has("layer_types")) return;
  const std::vector<std::string> types = config.texts("layer_types");
  if (std::ranges::count(types, kFull) < std::ssize(types)) {
    config.refuse("layer_types", fmt::format("\"{}\" in every layer", kFull));
  }
}

/// The heads of keys and values, whose default depends on the type.
std::int64_t read_kv_heads(const HfConfig& config, std::int64_t heads) {
  const bool has_default = is_qwen(config) && !config.is_null("num_key_value_heads");
  const std::int64_t otherwise = config.model_type() == kMistralHfType ? kMistralKvHeads
                                 : has_default                         ? kQwenKvHeads
                                                                       : heads;
  return config.count("num_key_value_heads", otherwise);
}

/// LlamaConfig::head_width: 0 for the width that follows from `hidden` and `heads`.
std::int64_t read_head_width(const HfConfig& config, std::int64_t hidden, std::int64_t heads) {
  const bool has_default = config.model_type() == kQwen3HfType;
  if (!has_default && !config.has("head_dim")) return 0;
  const std::int64_t width = config.count("head_dim", kQwen3HeadDim);
  return width * heads == hidden ? 0 : width;
}

std::span<const std::string_view> classes_of(const HfConfig& config) {
  if (config.model_type() == kQwen2HfType) return kQwen2Classes;
  return config.model_type() == kQwen3HfType ? std::span<const std::string_view>(kQwen3Classes) : kClasses;
}

}  // namespace

LlamaConfig llama_from_hf(const HfConfig& config) {
  LlamaConfig llama{.layers = config.count("num_hidden_layers"),
                    .hidden = config.count("hidden_size"),
                    .heads = config.count("num_attention_heads"),
                    .ffn = config.count("intermediate_size"),
                    .vocab = config.count("vocab_size"),
                    .seq_len = std::min(kMaxContext, config.count("max_position_embeddings", kMaxContext)),
                    .tied = config.flag("tie_word_embeddings", false)};
  llama.kv_heads = read_kv_heads(config, llama.heads);
  llama.head_width = read_head_width(config, llama.hidden, llama.heads);
  config.expect("hidden_act", "silu");
  llama.norm_epsilon = config.positive("rms_norm_eps", kTheirEpsilon);
  llama.qkv_bias = config.model_type() == kQwen2HfType;
  if (config.model_type() == kQwen3HfType) llama.qk_norm = QkNorm::kHead;
  if (is_qwen(config)) check_qwen_window(config);
  if (config.model_type() == kMistralHfType) check_mistral_window(config);
  if (!llama.qkv_bias) config.expect("attention_bias", false);
  if (!is_qwen(config)) config.expect("mlp_bias", false);
  config.architecture(classes_of(config));
  const Rope rope = read_rope(config);
  llama.rope_theta = rope.theta;
  llama.rope_scaling = rope.scaling;
  const std::int64_t context = config.count("max_position_embeddings", kMaxContext);
  if (context > kMaxContext) {
    config.note(fmt::format(
        "max_position_embeddings is {}: unless the job sets model.seq_len, the context is {} tokens", context,
        kMaxContext));
  }
  config.settle(is_qwen(config) ? std::span<const HfIdleKeys>(kQwenIdle) : kIdle);
  return llama;
}

nlohmann::ordered_json llama_hf_config(const LlamaConfig& config) {
  const std::string_view name = config.qkv_bias                   ? kQwen2Classes[0]
                                : config.qk_norm != QkNorm::kNone ? kQwen3Classes[0]
                                                                  : kClasses[0];
  const char* const type = config.qkv_bias                   ? kQwen2HfType
                           : config.qk_norm != QkNorm::kNone ? kQwen3HfType
                                                             : kLlamaHfType;
  nlohmann::ordered_json json{{"architectures", nlohmann::ordered_json::array({name})},
                              {"model_type", type},
                              {"vocab_size", config.vocab},
                              {"max_position_embeddings", config.seq_len},
                              {"hidden_size", config.hidden},
                              {"intermediate_size", config.ffn},
                              {"num_hidden_layers", config.layers},
                              {"num_attention_heads", config.heads},
                              {"num_key_value_heads", config.kv_heads},
                              {"head_dim", config.head_dim()},
                              {"hidden_act", "silu"},
                              {"rms_norm_eps", config.norm_epsilon},
                              {"rope_theta", config.rope_theta},
                              {"rope_scaling", rope_scaling_json(config.rope_scaling)}};
  if (!config.qkv_bias) json["attention_bias"] = false;
  json[config.qkv_bias || config.qk_norm != QkNorm::kNone ? "use_sliding_window" : "mlp_bias"] = false;
  json["tie_word_embeddings"] = config.tied;
  json["bos_token_id"] = nullptr;
  json["eos_token_id"] = nullptr;
  return json;
}

HfModel llama_to_hf(const LlamaConfig& config) {
  if (config.qkv_bias && config.qk_norm != QkNorm::kNone) {
    throw Error(ErrorCode::kUnsupported,
                "a decoder with qkv_bias and qk_norm has no form in transformers' format here");
  }
  std::vector<HfCopy> copies;
  if (config.tied) copies.push_back({"lm_head.weight", "model.embed_tokens.weight"});
  const RopeFrequencies rope =
      ops::rope_frequencies(config.head_dim(), config.rope_theta, config.rope_scaling);
  const auto pairs = std::span(rope.frequencies).first(static_cast<std::size_t>(rope.num_pairs));
  return {.config = llama_hf_config(config),
          .prefix = "model.",
          .tensors = tensors_of(config),
          .copies = std::move(copies),
          .derived = {derived_values(".rotary_emb.inv_freq", "the frequencies of its rotary positions",
                                     {pairs.begin(), pairs.end()})}};
}

}  // namespace trireme
