#include "models/llama_hf.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "models/layers_hf.h"
#include "models/rope_hf.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr std::int64_t kMaxContext = 2048;

/// One model_type: its switches, and the defaults of transformers for missing keys.
struct HfType {
  const char* name;
  std::array<std::string_view, 2> classes;
  LlamaConfig switches;  // only the members that the type fixes
  LayersHfDefaults layers;
  std::int64_t kv_heads = 0, head_width = 0;  // 0: heads; hidden / heads
  double epsilon = 1e-6;
  RopeHfDefaults rope;
  bool tied = false;
  bool has_mlp_bias = false, has_attention_bias = true;  // keys that must be false
};

const std::span<const HfType> hf_types() {
  static const std::array<HfType, 8> types{
      {{.name = kLlamaHfType,
        .classes = {"LlamaForCausalLM", "LlamaModel"},
        .switches = {},
        .has_mlp_bias = true},
       {.name = kMistralHfType,
        .classes = {"MistralForCausalLM", "MistralModel"},
        .switches = {},
        .layers = {.windows = HfWindows::kAll, .window = 4096},
        .kv_heads = 8,
        .has_mlp_bias = true},
       {.name = kQwen2HfType,
        .classes = {"Qwen2ForCausalLM", "Qwen2Model"},
        .switches = {.qkv_bias = true},
        .layers = {.windows = HfWindows::kFrom, .window = 4096},
        .kv_heads = 32,
        .has_attention_bias = false},
       {.name = kQwen3HfType,
        .classes = {"Qwen3ForCausalLM", "Qwen3Model"},
        .switches = {.qk_norm = QkNorm::kHead},
        .layers = {.windows = HfWindows::kFrom, .window = 4096},
        .kv_heads = 32,
        .head_width = 128},
       {.name = kSmolLm3HfType,
        .classes = {"SmolLM3ForCausalLM", "SmolLM3Model"},
        .switches = {},
        .layers = {.unrotated_every = 4},
        .kv_heads = 4,
        .rope = {.theta = 2e6},
        .tied = true,
        .has_mlp_bias = true},
       {.name = kOlmo2HfType,
        .classes = {"Olmo2ForCausalLM", "Olmo2Model"},
        .switches = {.qk_norm = QkNorm::kWhole, .norm_position = NormPosition::kAfter},
        .epsilon = 1e-5},
       {.name = kOlmo3HfType,
        .classes = {"Olmo3ForCausalLM", "Olmo3Model"},
        .switches = {.qk_norm = QkNorm::kWhole, .norm_position = NormPosition::kAfter},
        .layers = {.windows = HfWindows::kPattern, .window = 4096, .full_every = 4},
        .epsilon = 1e-5,
        .rope = {.theta = 5e5, .local_theta = 5e5}},
       {.name = kGemma3HfType,
        .classes = {"Gemma3ForCausalLM", "Gemma3TextModel"},
        .switches = {.qk_norm = QkNorm::kHead,
                     .norm_position = NormPosition::kBoth,
                     .norm_unit_offset = true,
                     .mlp_gate = MlpGate::kGelu},
        .layers = {.windows = HfWindows::kPattern, .window = 4096, .full_every = 6},
        .kv_heads = 4,
        .head_width = 256,
        .rope = {.theta = 1e6, .local_theta = 1e4},
        .tied = true}}};
  return types;
}

constexpr std::string_view kOtherHeads[] = {"num_labels", "_num_labels", "id2label", "label2id",
                                            "problem_type"};
constexpr std::string_view kWindowKeys[] = {"sliding_window",          "max_window_layers",
                                            "_sliding_window_pattern", "sliding_window_pattern",
                                            "no_rope_layer_interval",  "cache_implementation"};
constexpr HfIdleKeys kIdle[] = {{"heads that a language model does not have", kOtherHeads},
                                {"windows, which other keys define or turn off", kWindowKeys}};

std::vector<HfTensor> tensors_of(const LlamaConfig& config) {
  const std::int64_t hidden = config.hidden, head_dim = config.head_dim();
  const std::int64_t q = config.heads * head_dim, kv = config.kv_heads * head_dim;
  std::vector<HfTensor> tensors{
      {"embedding.tokens", {{"model.embed_tokens.weight", {config.vocab, hidden}}}}};
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const std::string ours = fmt::format("blocks.{}.", i), theirs = fmt::format("model.layers.{}.", i);
    const std::string attention = theirs + "self_attn.";
    const auto gain = [&](const std::string& name, const std::string& name_there, std::int64_t width) {
      tensors.push_back({ours + name, {{theirs + name_there, {width}}}});
    };
    const bool after = config.norm_position != NormPosition::kBefore;
    if (config.norm_position != NormPosition::kAfter) {
      gain("norm1.weight", "input_layernorm.weight", hidden);
      gain("norm2.weight", after ? "pre_feedforward_layernorm.weight" : "post_attention_layernorm.weight",
           hidden);
    }
    if (after) {
      gain("attention.norm.weight", "post_attention_layernorm.weight", hidden);
      gain("mlp.norm.weight", "post_feedforward_layernorm.weight", hidden);
    }
    tensors.insert(tensors.end(),
                   {{ours + "attention.qkv.weight",
                     {{attention + "q_proj.weight", {q, hidden}},
                      {attention + "k_proj.weight", {kv, hidden}},
                      {attention + "v_proj.weight", {kv, hidden}}}},
                    {ours + "attention.out.weight", {{attention + "o_proj.weight", {hidden, q}}}},
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
      const bool whole = config.qk_norm == QkNorm::kWhole;
      gain("attention.q_norm.weight", "self_attn.q_norm.weight", whole ? q : head_dim);
      gain("attention.k_norm.weight", "self_attn.k_norm.weight", whole ? kv : head_dim);
    }
  }
  tensors.push_back({"head.norm.weight", {{"model.norm.weight", {hidden}}}});
  if (!config.tied) tensors.push_back({"head.weight", {{"lm_head.weight", {config.vocab, hidden}}}});
  return tensors;
}

/// The heads of keys and values. Null is as many as queries in most types.
std::int64_t read_kv_heads(const HfConfig& config, const HfType& type, std::int64_t heads) {
  const bool is_null = config.is_null("num_key_value_heads") && type.name != std::string_view(kMistralHfType);
  return config.count("num_key_value_heads", type.kv_heads == 0 || is_null ? heads : type.kv_heads);
}

/// LlamaConfig::head_width: 0 for the width that follows from `hidden` and `heads`.
std::int64_t read_head_width(const HfConfig& config, const HfType& type, std::int64_t hidden,
                             std::int64_t heads) {
  if (type.head_width == 0 && !config.has("head_dim")) return 0;
  const std::int64_t width = config.count("head_dim", type.head_width);
  return width * heads == hidden ? 0 : width;
}

void read_gemma(const HfConfig& config, LlamaConfig& llama) {
  config.expect("hidden_activation", "gelu_pytorch_tanh");
  config.expect("use_bidirectional_attention", false);
  config.expect("attn_logit_softcapping", nullptr);
  config.expect("final_logit_softcapping", nullptr);
  constexpr double kDefaultScalar = 256.0;
  llama.query_scalar = config.positive("query_pre_attn_scalar", kDefaultScalar);
  llama.embedding_scale = std::sqrt(static_cast<double>(llama.hidden));
}

bool is_gemma(const HfType& type) {
  return type.name == std::string_view(kGemma3HfType);
}

const HfType& type_of(const HfConfig& config) {
  const std::string name = config.model_type();
  const auto types = hf_types();
  const auto found = std::ranges::find_if(types, [&](const HfType& type) { return type.name == name; });
  return found == types.end() ? types.front() : *found;
}

bool has_switches_of(const LlamaConfig& config, const HfType& type) {
  const LlamaConfig& there = type.switches;
  if (config.qkv_bias != there.qkv_bias || config.qk_norm != there.qk_norm ||
      config.norm_position != there.norm_position || config.norm_unit_offset != there.norm_unit_offset ||
      config.mlp_gate != there.mlp_gate) {
    return false;
  }
  const bool is_scaled =
      std::abs(config.embedding_scale / std::sqrt(static_cast<double>(config.hidden)) - 1) < 1e-6;
  const bool is_integer = config.query_scalar == std::floor(config.query_scalar);
  if (is_gemma(type) ? !is_scaled || !is_integer
                     : config.embedding_scale != 1.0 || config.query_scalar != 0.0)
    return false;
  std::string letters;
  for (std::int64_t i = 0; i < config.layers; ++i) letters += static_cast<char>(config.kind_of_layer(i));
  const bool unrotated = letters.find('n') != std::string::npos,
             windowed = letters.find('w') != std::string::npos;
  if (unrotated != (type.layers.unrotated_every > 0)) return false;
  if (windowed && (type.rope.local_theta > 0) != (config.rope_local_theta > 0)) return false;
  switch (type.layers.windows) {
    case HfWindows::kNone:
      return !windowed;
    case HfWindows::kAll:
      return windowed && letters.find('f') == std::string::npos;
    case HfWindows::kFrom:
      return true;
    case HfWindows::kPattern:
      return windowed || is_gemma(type);
  }
  return false;
}

/// The type that computes `config`. Throws Error(kUnsupported) if there is none.
const HfType& type_for(const LlamaConfig& config) {
  for (const HfType& type : hf_types()) {
    if (has_switches_of(config, type)) return type;
  }
  std::vector<std::string_view> names;
  for (const HfType& type : hf_types()) names.emplace_back(type.name);
  throw Error(ErrorCode::kUnsupported,
              "this combination of qkv_bias, qk_norm, norm_position, norm_unit_offset, mlp_gate, "
              "embedding_scale, query_scalar, window, layer_pattern and rope_local_theta is none of the "
              "model types of transformers that are written here: {}",
              fmt::join(names, ", "));
}

}  // namespace

LlamaConfig llama_from_hf(const HfConfig& config) {
  const HfType& type = type_of(config);
  LlamaConfig llama = type.switches;
  llama.layers = config.count("num_hidden_layers");
  llama.hidden = config.count("hidden_size");
  llama.heads = config.count("num_attention_heads");
  llama.ffn = config.count("intermediate_size");
  llama.vocab = config.count("vocab_size");
  const std::int64_t context = config.count("max_position_embeddings", kMaxContext);
  llama.seq_len = std::min(kMaxContext, context);
  llama.tied = config.flag("tie_word_embeddings", type.tied);
  llama.kv_heads = read_kv_heads(config, type, llama.heads);
  llama.head_width = read_head_width(config, type, llama.hidden, llama.heads);
  llama.norm_epsilon = config.positive("rms_norm_eps", type.epsilon);
  if (is_gemma(type)) {
    read_gemma(config, llama);
  } else {
    config.expect("hidden_act", "silu");
  }
  if (type.has_attention_bias) config.expect("attention_bias", false);
  if (type.has_mlp_bias) config.expect("mlp_bias", false);
  config.architecture(type.classes);
  read_hf_layers(config, type.layers, llama);
  read_hf_rope(config, type.rope, llama);
  if (context > kMaxContext) {
    config.note(fmt::format(
        "max_position_embeddings is {}: unless the job sets model.seq_len, the context is {} tokens", context,
        kMaxContext));
  }
  config.settle(kIdle);
  return llama;
}

nlohmann::ordered_json llama_hf_config(const LlamaConfig& config) {
  const HfType& type = type_for(config);
  nlohmann::ordered_json json{{"architectures", nlohmann::ordered_json::array({type.classes[0]})},
                              {"model_type", type.name},
                              {"vocab_size", config.vocab},
                              {"max_position_embeddings", config.seq_len},
                              {"hidden_size", config.hidden},
                              {"intermediate_size", config.ffn},
                              {"num_hidden_layers", config.layers},
                              {"num_attention_heads", config.heads},
                              {"num_key_value_heads", config.kv_heads},
                              {"head_dim", config.head_dim()},
                              {"rms_norm_eps", config.norm_epsilon}};
  if (is_gemma(type)) {
    json["hidden_activation"] = "gelu_pytorch_tanh";
    const auto scalar = static_cast<std::int64_t>(config.query_scalar);  // transformers takes only integers
    json["query_pre_attn_scalar"] = scalar > 0 ? scalar : config.head_dim();
  } else {
    json["hidden_act"] = "silu";
  }
  write_hf_rope(config, type.rope.local_theta > 0, json);
  if (type.has_attention_bias) json["attention_bias"] = false;
  if (type.has_mlp_bias && type.layers.windows == HfWindows::kNone) json["mlp_bias"] = false;
  write_hf_layers(config, type.layers, json);
  json["tie_word_embeddings"] = config.tied;
  json["bos_token_id"] = nullptr;
  json["eos_token_id"] = nullptr;
  return json;
}

HfModel llama_to_hf(const LlamaConfig& config) {
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
