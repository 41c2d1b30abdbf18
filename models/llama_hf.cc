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

constexpr std::int64_t kMistralKvHeads = 8;  // if config.json has none

constexpr std::array<std::string_view, 4> kClasses{"LlamaForCausalLM", "LlamaModel", "MistralForCausalLM",
                                                   "MistralModel"};

constexpr std::string_view kOtherHeads[] = {"num_labels", "_num_labels", "id2label", "label2id",
                                            "problem_type"};
constexpr HfIdleKeys kIdle[] = {{"heads that a language model does not have", kOtherHeads}};

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
void check_window(const HfConfig& config) {
  if (!config.has("sliding_window")) return;
  const std::int64_t context = config.count("max_position_embeddings", kMaxContext);
  if (config.count("sliding_window") < context) config.refuse("sliding_window", "null, or the whole context");
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
  const bool is_mistral = config.model_type() == kMistralHfType;
  llama.kv_heads = config.count("num_key_value_heads", is_mistral ? kMistralKvHeads : llama.heads);
  config.expect("head_dim", llama.hidden / llama.heads);
  config.expect("hidden_act", "silu");
  llama.norm_epsilon = config.positive("rms_norm_eps", kTheirEpsilon);
  if (is_mistral) check_window(config);
  config.expect("attention_bias", false);
  config.expect("mlp_bias", false);
  config.architecture(kClasses);
  const Rope rope = read_rope(config);
  llama.rope_theta = rope.theta;
  llama.rope_scaling = rope.scaling;
  const std::int64_t context = config.count("max_position_embeddings", kMaxContext);
  if (context > kMaxContext) {
    config.note(fmt::format(
        "max_position_embeddings is {}: unless the job sets model.seq_len, the context is {} tokens", context,
        kMaxContext));
  }
  config.settle(kIdle);
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
          {"rms_norm_eps", config.norm_epsilon},
          {"rope_theta", config.rope_theta},
          {"rope_scaling", rope_scaling_json(config.rope_scaling)},
          {"attention_bias", false},
          {"mlp_bias", false},
          {"tie_word_embeddings", config.tied},
          {"bos_token_id", nullptr},
          {"eos_token_id", nullptr}};
}

HfModel llama_to_hf(const LlamaConfig& config) {
  std::vector<HfCopy> copies;
  if (config.tied) copies.push_back({"lm_head.weight", "model.embed_tokens.weight"});
  const std::int64_t head_dim = config.hidden / config.heads;
  const RopeFrequencies rope = ops::rope_frequencies(head_dim, config.rope_theta, config.rope_scaling);
  const auto pairs = std::span(rope.frequencies).first(static_cast<std::size_t>(rope.num_pairs));
  return {.config = llama_hf_config(config),
          .prefix = "model.",
          .tensors = tensors_of(config),
          .copies = std::move(copies),
          .derived = {derived_values(".rotary_emb.inv_freq", "the frequencies of its rotary positions",
                                     {pairs.begin(), pairs.end()})}};
}

}  // namespace trireme
