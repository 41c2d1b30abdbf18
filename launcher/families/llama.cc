// Llama 3 and models of the same architecture: see the table of switches in models/README.md.
#include "models/llama.h"

#include "launcher/data/token_data.h"
#include "launcher/families/model_family.h"
#include "launcher/families/tensor_chunks.h"
#include "launcher/families/token_model.h"
#include "models/llama_hf.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr std::string_view kNames[] = {"llama"};
constexpr std::string_view kKeys[] = {"from",
                                      "size",
                                      "layers",
                                      "hidden",
                                      "heads",
                                      "kv_heads",
                                      "head_width",
                                      "qkv_bias",
                                      "qk_norm",
                                      "norm_position",
                                      "norm_unit_offset",
                                      "mlp_gate",
                                      "embedding_scale",
                                      "query_scalar",
                                      "window",
                                      "layer_pattern",
                                      "ffn",
                                      "vocab",
                                      "seq_len",
                                      "rope_theta",
                                      "rope_local_theta",
                                      "rope_scaling",
                                      "rope_factor",
                                      "rope_freq_factors",
                                      "rope_original_context",
                                      "rope_attention_factor",
                                      "norm_epsilon",
                                      "tied",
                                      "tensor_chunks",
                                      "loss_parts"};

/// The starting point of build() if model.size is empty.
constexpr LlamaConfig kUnsized{.kv_heads = 0, .ffn = 0, .vocab = 0, .rope_theta = 10000.0};

LlamaConfig sized(const ModelSection& model) {
  return model.size.empty() ? kUnsized : llama_config_for_size(model.size);
}

/// Rotary positions turn pairs of a head's elements.
void check_head_width(const ModelSection& model, std::int64_t hidden, std::int64_t heads) {
  if (model.head_width > 0) {
    TRIREME_CHECK(model.head_width % 2 == 0 && model.head_width <= 2 * RopeFrequencies::kMaxPairs,
                  "model.head_width = {}: rotary positions turn pairs, so it must be even and at most {}",
                  model.head_width, 2 * RopeFrequencies::kMaxPairs);
    return;
  }
  TRIREME_CHECK(hidden % heads == 0, "model.heads = {} does not divide model.hidden = {}", heads, hidden);
  TRIREME_CHECK(
      hidden / heads % 2 == 0,
      "model.hidden = {} in model.heads = {} gives heads of {}: rotary positions turn pairs, so it must "
      "be even",
      hidden, heads, hidden / heads);
  TRIREME_CHECK(hidden / heads <= 2 * RopeFrequencies::kMaxPairs,
                "model.hidden = {} in model.heads = {} gives heads of {}, above the {} that rotary positions "
                "are made for",
                hidden, heads, hidden / heads, 2 * RopeFrequencies::kMaxPairs);
}

void check(const ModelSection& model) {
  check_has_shape(model);
  const LlamaConfig base = sized(model);
  const std::int64_t hidden = model.hidden > 0 ? model.hidden : base.hidden;
  const std::int64_t heads = model.heads > 0 ? model.heads : base.heads;
  check_head_width(model, hidden, heads);
  TRIREME_CHECK(
      model.rope_theta == 0 || model.rope_theta >= 1,
      "model.rope_theta = {}: the base of rotary positions is at least 1 (Llama 3: 500000), or 0 for "
      "the size's",
      model.rope_theta);
  const std::int64_t kv_heads = model.kv_heads > 0 ? model.kv_heads : base.kv_heads;
  TRIREME_CHECK(kv_heads == 0 || heads % kv_heads == 0,
                "model.kv_heads = {} does not divide model.heads = {}", kv_heads, heads);
  TRIREME_CHECK(model.qk_norm != QkNorm::kWhole || model.tensor_chunks == 1,
                "model.qk_norm = \"whole\" is not computed in tensor chunks, because a norm would need the "
                "heads of all ranks: use model.tensor_chunks = 1, not {}",
                model.tensor_chunks);
  check_tensor_chunks(model, {"kv_heads", kv_heads > 0 ? kv_heads : heads}, {"hidden", hidden});
  const std::int64_t sized_ffn = model.ffn > 0 ? model.ffn : base.ffn;
  check_divided(model, {"ffn", sized_ffn > 0 ? sized_ffn : default_llama_ffn(hidden)});
  TRIREME_CHECK(model.rope_factor == 0 || model.rope_factor >= 1,
                "model.rope_factor = {} would make the context shorter: give 1 or more, or 0",
                model.rope_factor);
  for (const char letter : model.layer_pattern) {
    TRIREME_CHECK(std::string_view("fwn").find(letter) != std::string_view::npos,
                  "model.layer_pattern = \"{}\" has the letter '{}': use f, w and n", model.layer_pattern,
                  letter);
    TRIREME_CHECK(letter != 'w' || model.window > 0,
                  "model.layer_pattern = \"{}\" has layers with a window: set model.window, not 0",
                  model.layer_pattern);
  }
  TRIREME_CHECK(model.rope_freq_factors[0] < model.rope_freq_factors[1],
                "model.rope_freq_factors = [{}, {}]: the lower comes first", model.rope_freq_factors[0],
                model.rope_freq_factors[1]);
}

void fill_in(JobConfig& config) {
  ModelSection& model = config.model;
  const LlamaConfig base = sized(model);
  const auto fill = [](auto& number, auto value) {
    if (number == 0) number = value;
  };
  fill(model.layers, base.layers);
  fill(model.hidden, base.hidden);
  fill(model.heads, base.heads);
  fill(model.kv_heads, base.kv_heads > 0 ? base.kv_heads : model.heads);
  fill(model.ffn, base.ffn > 0 ? base.ffn : default_llama_ffn(model.hidden));
  fill(model.vocab, base.vocab);
  fill(model.seq_len, base.seq_len);
  fill(model.rope_theta, base.rope_theta);
  fill(model.rope_factor, base.rope_scaling.factor);
  fill(model.norm_epsilon, base.norm_epsilon);
  if (!model.tied) model.tied = base.tied;
  if (model.vocab == 0) model.vocab = vocab_of_data(config.data);
  check_loss_parts(model);
}

LlamaConfig llama_config(const ModelSection& model) {
  return {.layers = model.layers,
          .hidden = model.hidden,
          .heads = model.heads,
          .kv_heads = model.kv_heads,
          .head_width = model.head_width,
          .ffn = model.ffn,
          .vocab = model.vocab,
          .seq_len = model.seq_len,
          .rope_theta = model.rope_theta,
          .rope_scaling = {.kind = model.rope_scaling,
                           .factor = model.rope_factor,
                           .low_freq_factor = model.rope_freq_factors[0],
                           .high_freq_factor = model.rope_freq_factors[1],
                           .original_context = model.rope_original_context,
                           .attention_factor = model.rope_attention_factor},
          .rope_local_theta = model.rope_local_theta,
          .norm_epsilon = model.norm_epsilon,
          .qkv_bias = model.qkv_bias,
          .qk_norm = model.qk_norm,
          .norm_position = model.norm_position,
          .norm_unit_offset = model.norm_unit_offset,
          .mlp_gate = model.mlp_gate,
          .embedding_scale = model.embedding_scale,
          .query_scalar = model.query_scalar,
          .window = model.window,
          .layer_pattern = model.layer_pattern,
          .tied = *model.tied,
          .tensor_chunks = static_cast<int>(model.tensor_chunks),
          .loss_parts = model.loss_parts};
}

BlockList build(const ModelSection& model) {
  return build_llama(llama_config(model));
}

ModelSection read_hf(const HfConfig& config) {
  const LlamaConfig llama = llama_from_hf(config);
  ModelSection model;
  model.layers = llama.layers;
  model.hidden = llama.hidden;
  model.heads = llama.heads;
  model.kv_heads = llama.kv_heads;
  model.head_width = llama.head_width;
  model.qkv_bias = llama.qkv_bias;
  model.qk_norm = llama.qk_norm;
  model.norm_position = llama.norm_position;
  model.norm_unit_offset = llama.norm_unit_offset;
  model.mlp_gate = llama.mlp_gate;
  model.embedding_scale = llama.embedding_scale;
  model.query_scalar = llama.query_scalar;
  model.window = llama.window;
  model.layer_pattern = llama.layer_pattern;
  model.ffn = llama.ffn;
  model.vocab = llama.vocab;
  model.seq_len = llama.seq_len;
  model.rope_theta = llama.rope_theta;
  model.rope_local_theta = llama.rope_local_theta;
  model.rope_scaling = llama.rope_scaling.kind;
  model.rope_factor = llama.rope_scaling.factor;
  model.rope_attention_factor = llama.rope_scaling.attention_factor;
  model.rope_freq_factors = {llama.rope_scaling.low_freq_factor, llama.rope_scaling.high_freq_factor};
  model.rope_original_context = llama.rope_scaling.original_context;
  model.norm_epsilon = llama.norm_epsilon;
  model.tied = llama.tied;
  return model;
}

constexpr std::string_view kHfTypes[] = {kLlamaHfType,   kMistralHfType, kQwen2HfType, kQwen3HfType,
                                         kSmolLm3HfType, kOlmo2HfType,   kOlmo3HfType, kGemma3HfType};
constexpr HfFormat kHf{
    .model_types = kHfTypes,
    .read = read_hf,
    .config = [](const ModelSection& model) { return llama_hf_config(llama_config(model)); },
    .write = [](const ModelSection& model) { return llama_to_hf(llama_config(model)); }};

/// The switches that affect the time of a layer.
std::string switches_text(const ModelSection& model) {
  std::string text = model.qkv_bias ? " with biases" : "";
  if (model.qk_norm != QkNorm::kNone) text += " with norms";
  if (model.norm_position != NormPosition::kBefore) {
    text += fmt::format(", norms {}", to_word(model.norm_position));
  }
  if (model.window > 0) text += fmt::format(", windows of {}", model.window);
  if (!model.layer_pattern.empty()) text += fmt::format(", layers {}", model.layer_pattern);
  return text;
}

std::string describe(const JobConfig& config) {
  const ModelSection& model = config.model;
  const std::string width = model.head_width > 0 ? fmt::format(", each {} wide", model.head_width) : "";
  return fmt::format("{} layers, {} wide, {} heads ({} of keys{}){}, MLP {}, vocabulary {}, context {}{}",
                     model.layers, model.hidden, model.heads, model.kv_heads, width, switches_text(model),
                     model.ffn, model.vocab, model.seq_len, chunks_text(model));
}

}  // namespace

extern constexpr ModelFamily kLlamaFamily{.plural = "Llamas",
                                          .names = kNames,
                                          .sizes = kLlamaSizes,
                                          .keys = kKeys,
                                          .data = kDecoderData,
                                          .writes_text = true,
                                          .check = check,
                                          .fill_in = fill_in,
                                          .build = build,
                                          .describe = describe,
                                          .variant = tied_variant,
                                          .hf = &kHf};

}  // namespace trireme
