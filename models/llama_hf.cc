#include "models/llama_hf.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr double kEpsilon = 1e-5;       // of RMS norms
constexpr double kTheirEpsilon = 1e-6;  // where config.json does not say
constexpr std::int64_t kMaxContext = 2048;

std::vector<HfTensor> tensors_of(const LlamaConfig& config) {
  const std::int64_t hidden = config.hidden, head_dim = hidden / config.heads;
  const std::int64_t q = config.heads * head_dim, kv = config.kv_heads * head_dim;
  std::vector<HfTensor> tensors{
      {"embedding.tokens", {{"model.embed_tokens.weight", {config.vocab, hidden}}}}};
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const std::string ours = fmt::format("blocks.{}.", i), theirs = fmt::format("model.layers.{}.", i);
    tensors.insert(tensors.end(),
                   {{ours + "norm1.weight", {{theirs + "input_layernorm.weight", {hidden}}}},
                    {ours + "attention.qkv.weight",
                     {{theirs + "self_attn.q_proj.weight", {q, hidden}},
                      {theirs + "self_attn.k_proj.weight", {kv, hidden}},
                      {theirs + "self_attn.v_proj.weight", {kv, hidden}}}},
                    {ours + "attention.out.weight", {{theirs + "self_attn.o_proj.weight", {hidden, q}}}},
                    {ours + "norm2.weight", {{theirs + "post_attention_layernorm.weight", {hidden}}}},
                    {ours + "mlp.gate_up.weight",
                     {{theirs + "mlp.gate_proj.weight", {config.ffn, hidden}},
                      {theirs + "mlp.up_proj.weight", {config.ffn, hidden}}}},
                    {ours + "mlp.down.weight", {{theirs + "mlp.down_proj.weight", {hidden, config.ffn}}}}});
  }
  tensors.push_back({"head.norm.weight", {{"model.norm.weight", {hidden}}}});
  if (!config.tied) tensors.push_back({"head.weight", {{"lm_head.weight", {config.vocab, hidden}}}});
  return tensors;
}

/// Of the object that says how positions are stretched: older files have the base beside it.
void read_rope(const HfConfig& config, LlamaConfig& llama) {
  const bool new_form = config.has("rope_parameters");
  const HfConfig rope = config.object(new_form ? "rope_parameters" : "rope_scaling");
  llama.rope_theta = (new_form ? rope : config).positive("rope_theta", 10000.0);
  const std::string type_key = !rope.has("rope_type") && rope.has("type") ? "type" : "rope_type";
  const std::string type = rope.text(type_key, "default");
  if (type == "default") return;
  if (type != "llama3") rope.refuse(type_key, "\"default\" and \"llama3\"");
  const auto required = [&](const char* key) {
    if (!rope.has(key)) rope.refuse(key, "\"llama3\" with a number there");
    return rope.positive(key, 1.0);
  };
  llama.rope_scaling = {.factor = required("factor"),
                        .low_freq_factor = required("low_freq_factor"),
                        .high_freq_factor = required("high_freq_factor"),
                        .original_context = rope.count("original_max_position_embeddings")};
}

nlohmann::ordered_json rope_scaling_json(const ops::RopeScaling& scaling) {
  if (scaling.factor == 1.0) return nullptr;
  return {{"rope_type", "llama3"},
          {"factor", scaling.factor},
          {"low_freq_factor", scaling.low_freq_factor},
          {"high_freq_factor", scaling.high_freq_factor},
          {"original_max_position_embeddings", scaling.original_context}};
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
  llama.kv_heads = config.count("num_key_value_heads", llama.heads);
  config.expect("head_dim", llama.hidden / llama.heads);
  config.expect("hidden_act", "silu");
  config.expect("rms_norm_eps", kEpsilon, kTheirEpsilon);
  config.expect("attention_bias", false);
  config.expect("mlp_bias", false);
  read_rope(config, llama);
  return llama;
}

nlohmann::ordered_json llama_hf_config(const LlamaConfig& config) {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", kLlamaHfType},
          {"vocab_size", config.vocab},
          {"max_position_embeddings", config.seq_len},
          {"hidden_size", config.hidden},
          {"intermediate_size", config.ffn},
          {"num_hidden_layers", config.layers},
          {"num_attention_heads", config.heads},
          {"num_key_value_heads", config.kv_heads},
          {"head_dim", config.hidden / config.heads},
          {"hidden_act", "silu"},
          {"rms_norm_eps", kEpsilon},
          {"rope_theta", config.rope_theta},
          {"rope_scaling", rope_scaling_json(config.rope_scaling)},
          {"attention_bias", false},
          {"mlp_bias", false},
          {"tie_word_embeddings", config.tied},
          {"bos_token_id", nullptr},
          {"eos_token_id", nullptr}};
}

HfModel llama_to_hf(const LlamaConfig& config) {
  // Frequencies, which older versions save; a head that is the token table.
  std::vector<std::string> passed_over{".rotary_emb.inv_freq"};
  if (config.tied) passed_over.emplace_back("lm_head.weight");
  return {.config = llama_hf_config(config),
          .prefix = "model.",
          .tensors = tensors_of(config),
          .passed_over = std::move(passed_over)};
}

}  // namespace trireme
