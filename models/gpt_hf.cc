#include "models/gpt_hf.h"

#include <fmt/format.h>

#include <array>

#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr std::array<std::string_view, 2> kClasses{"GPT2LMHeadModel", "GPT2Model"};

constexpr std::string_view kOtherHeads[] = {"num_labels",
                                            "_num_labels",
                                            "id2label",
                                            "label2id",
                                            "problem_type",
                                            "summary_type",
                                            "summary_use_proj",
                                            "summary_activation",
                                            "summary_proj_to_labels",
                                            "summary_first_dropout"};
constexpr std::string_view kExecution[] = {"reorder_and_upcast_attn"};
constexpr HfIdleKeys kIdle[] = {{"heads that a language model does not have", kOtherHeads},
                                {"the order of the same products", kExecution}};

/// A size under its GPT-2 key, or under the key that all of transformers shares.
std::int64_t size_of(const HfConfig& config, const char* key, const char* shared_key) {
  if (!config.has(key) && config.has(shared_key)) return config.count(shared_key);
  const std::int64_t size = config.count(key);
  if (config.has(shared_key) && config.count(shared_key) != size)
    config.refuse_contradiction(shared_key, key);
  return size;
}

struct Norm {
  const char *ours, *theirs;
};
constexpr Norm kNorms[] = {{"norm1", "ln_1"}, {"norm2", "ln_2"}};

struct Linear {
  const char *ours, *theirs;
  int in, out;  // widths, as multiples of the residual stream's
};
constexpr Linear kLinears[] = {{"attention.qkv", "attn.c_attn", 1, 3},
                               {"attention.out", "attn.c_proj", 1, 1},
                               {"mlp.up", "mlp.c_fc", 1, 4},
                               {"mlp.down", "mlp.c_proj", 4, 1}};

class Table {
 public:
  explicit Table(std::int64_t hidden) : hidden_(hidden) {}

  void add(std::string ours, std::string theirs, std::vector<std::int64_t> shape, bool transposed = false) {
    tensors.push_back({std::move(ours), {{std::move(theirs), std::move(shape), transposed}}});
  }
  void add_norm(const std::string& ours, const std::string& theirs) {
    for (const char* part : {".weight", ".bias"}) add(ours + part, theirs + part, {hidden_});
  }
  void add_layer(std::int64_t layer) {
    const std::string ours = fmt::format("blocks.{}.", layer),
                      theirs = fmt::format("transformer.h.{}.", layer);
    for (const Norm& norm : kNorms) add_norm(ours + norm.ours, theirs + norm.theirs);
    for (const Linear& linear : kLinears) {
      const std::int64_t in = linear.in * hidden_, out = linear.out * hidden_;
      add(ours + linear.ours + ".weight", theirs + linear.theirs + ".weight", {in, out}, /*transposed=*/true);
      add(ours + linear.ours + ".bias", theirs + linear.theirs + ".bias", {out});
    }
  }

  std::vector<HfTensor> tensors;

 private:
  std::int64_t hidden_;
};

}  // namespace

GptConfig gpt_from_hf(const HfConfig& config) {
  const GptConfig gpt{.layers = size_of(config, "n_layer", "num_hidden_layers"),
                      .hidden = size_of(config, "n_embd", "hidden_size"),
                      .heads = size_of(config, "n_head", "num_attention_heads"),
                      .vocab = config.count("vocab_size"),
                      .seq_len = size_of(config, "n_positions", "max_position_embeddings"),
                      .norm_epsilon = config.positive("layer_norm_epsilon", GptConfig().norm_epsilon),
                      .tied = config.flag("tie_word_embeddings", true)};
  config.architecture(kClasses);
  const auto activation = config.text("activation_function", "gelu_new");
  // Both names denote the same function.
  if (activation != "gelu_new" && activation != "gelu_pytorch_tanh") {
    config.refuse("activation_function", "\"gelu_new\"");
  }
  config.expect("n_inner", 4 * gpt.hidden);
  config.expect("scale_attn_weights", true);
  config.expect("scale_attn_by_inverse_layer_idx", false);
  config.expect("add_cross_attention", false);
  if (config.has("n_ctx")) config.expect("n_ctx", gpt.seq_len);  // in old versions: the size of the mask
  config.settle(kIdle);
  return gpt;
}

nlohmann::ordered_json gpt_hf_config(const GptConfig& config) {
  const double dropout = static_cast<double>(config.dropout);
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", kGptHfType},
          {"vocab_size", config.vocab},
          {"n_positions", config.seq_len},
          {"n_embd", config.hidden},
          {"n_layer", config.layers},
          {"n_head", config.heads},
          {"n_inner", nullptr},
          {"activation_function", "gelu_new"},
          {"layer_norm_epsilon", config.norm_epsilon},
          {"embd_pdrop", dropout},
          {"attn_pdrop", dropout},
          {"resid_pdrop", dropout},
          {"scale_attn_weights", true},
          {"tie_word_embeddings", config.tied},
          {"bos_token_id", nullptr},
          {"eos_token_id", nullptr}};
}

HfModel gpt_to_hf(const GptConfig& config) {
  Table table(config.hidden);
  table.add("embedding.tokens", "transformer.wte.weight", {config.vocab, config.hidden});
  table.add("embedding.positions", "transformer.wpe.weight", {config.seq_len, config.hidden});
  for (std::int64_t i = 0; i < config.layers; ++i) table.add_layer(i);
  table.add_norm("head.norm", "transformer.ln_f");
  std::vector<HfCopy> copies;
  if (config.tied) {
    copies.push_back({"lm_head.weight", "transformer.wte.weight"});
  } else {
    table.add("head.weight", "lm_head.weight", {config.vocab, config.hidden});
  }
  return {.config = gpt_hf_config(config),
          .prefix = "transformer.",
          .tensors = std::move(table.tensors),
          .copies = std::move(copies),
          .derived = {derived_masked_logit(".attn.masked_bias"), derived_causal_mask(".attn.bias")}};
}

}  // namespace trireme
