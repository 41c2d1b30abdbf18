// Llama 3, and shapes of its kind.
#include "models/llama.h"

#include "launcher/families/model_family.h"
#include "launcher/families/token_model.h"
#include "launcher/train/token_data.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr std::string_view kNames[] = {"llama"};
constexpr std::string_view kKeys[] = {"size", "layers", "hidden",  "heads",      "kv_heads",
                                      "ffn",  "vocab",  "seq_len", "rope_theta", "tied"};

/// Where model.size is empty: what build() starts from.
constexpr LlamaConfig kUnsized{.kv_heads = 0, .ffn = 0, .vocab = 0, .rope_theta = 10000.0};

LlamaConfig sized(const ModelSection& model) {
  return model.size.empty() ? kUnsized : llama_config_for_size(model.size);
}

void check(const ModelSection& model) {
  check_has_shape(model);
  const LlamaConfig base = sized(model);
  const std::int64_t hidden = model.hidden > 0 ? model.hidden : base.hidden;
  const std::int64_t heads = model.heads > 0 ? model.heads : base.heads;
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
  TRIREME_CHECK(
      model.rope_theta == 0 || model.rope_theta >= 1,
      "model.rope_theta = {}: the base of rotary positions is at least 1 (Llama 3: 500000), or 0 for "
      "the size's",
      model.rope_theta);
  const std::int64_t kv_heads = model.kv_heads > 0 ? model.kv_heads : base.kv_heads;
  TRIREME_CHECK(kv_heads == 0 || heads % kv_heads == 0,
                "model.kv_heads = {} does not divide model.heads = {}", kv_heads, heads);
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
  if (!model.tied) model.tied = base.tied;
  if (model.vocab == 0) model.vocab = vocab_of_data(config.data);
}

BlockList build(const ModelSection& model) {
  return build_llama({.layers = model.layers,
                      .hidden = model.hidden,
                      .heads = model.heads,
                      .kv_heads = model.kv_heads,
                      .ffn = model.ffn,
                      .vocab = model.vocab,
                      .seq_len = model.seq_len,
                      .rope_theta = model.rope_theta,
                      .rope_scaling = sized(model).rope_scaling,
                      .tied = *model.tied});
}

std::string describe(const JobConfig& config) {
  const ModelSection& model = config.model;
  return fmt::format("{} layers, {} wide, {} heads ({} of keys), MLP {}, vocabulary {}, context {}",
                     model.layers, model.hidden, model.heads, model.kv_heads, model.ffn, model.vocab,
                     model.seq_len);
}

}  // namespace

extern constexpr ModelFamily kLlamaFamily{.plural = "Llamas",
                                          .names = kNames,
                                          .sizes = kLlamaSizes,
                                          .keys = kKeys,
                                          .data = kTokenData,
                                          .writes_text = true,
                                          .check = check,
                                          .fill_in = fill_in,
                                          .build = build,
                                          .describe = describe,
                                          .variant = tied_variant};

}  // namespace trireme
