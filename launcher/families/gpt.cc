// GPT-2 and GPT-3.
#include "models/gpt.h"

#include "launcher/data/token_data.h"
#include "launcher/families/model_family.h"
#include "launcher/families/tensor_chunks.h"
#include "launcher/families/token_model.h"
#include "models/gpt_hf.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr std::string_view kNames[] = {"gpt"};
constexpr std::string_view kKeys[] = {"from",  "size",          "layers",    "hidden",       "heads",
                                      "vocab", "seq_len",       "dropout",   "norm_epsilon", "tied",
                                      "bias",  "tensor_chunks", "loss_parts"};

void check(const ModelSection& model) {
  check_has_shape(model);
  if (model.hidden > 0 && model.heads > 0) {
    TRIREME_CHECK(model.hidden % model.heads == 0, "model.heads = {} does not divide model.hidden = {}",
                  model.heads, model.hidden);
  }
  const GptConfig base = model.size.empty() ? GptConfig{} : gpt_config_for_size(model.size);
  check_tensor_chunks(model, {"heads", model.heads > 0 ? model.heads : base.heads},
                      {"hidden", model.hidden > 0 ? model.hidden : base.hidden});
}

void fill_in(JobConfig& config) {
  ModelSection& model = config.model;
  const auto fill = [](std::int64_t& number, std::int64_t value) {
    if (number == 0) number = value;
  };
  if (!model.size.empty()) {
    const GptConfig sized = gpt_config_for_size(model.size);
    fill(model.layers, sized.layers);
    fill(model.hidden, sized.hidden);
    fill(model.heads, sized.heads);
    fill(model.vocab, sized.vocab);
    fill(model.seq_len, sized.seq_len);
  }
  if (model.vocab == 0) model.vocab = vocab_of_data(config.data);
  if (model.norm_epsilon == 0) model.norm_epsilon = GptConfig().norm_epsilon;
  if (!model.tied) model.tied = true;
  check_loss_parts(model);
  TRIREME_CHECK(
      !config.data.pack || model.tensor_chunks == 1,
      "data.pack = true with model.tensor_chunks = {}: a GPT's embedding in chunks cannot restart its "
      "learned positions; set data.pack = false or model.tensor_chunks = 1",
      model.tensor_chunks);
}

GptConfig gpt_config(const ModelSection& model) {
  return {.layers = model.layers,
          .hidden = model.hidden,
          .heads = model.heads,
          .vocab = model.vocab,
          .seq_len = model.seq_len,
          .dropout = static_cast<float>(model.dropout),
          .norm_epsilon = model.norm_epsilon,
          .tied = *model.tied,
          .tensor_chunks = static_cast<int>(model.tensor_chunks),
          .loss_parts = model.loss_parts};
}

BlockList build(const ModelSection& model) {
  return build_gpt(gpt_config(model));
}

ModelSection read_hf(const HfConfig& config) {
  const GptConfig gpt = gpt_from_hf(config);
  ModelSection model;
  model.layers = gpt.layers;
  model.hidden = gpt.hidden;
  model.heads = gpt.heads;
  model.vocab = gpt.vocab;
  model.seq_len = gpt.seq_len;
  model.norm_epsilon = gpt.norm_epsilon;
  model.tied = gpt.tied;
  return model;
}

constexpr std::string_view kHfTypes[] = {kGptHfType};
constexpr HfFormat kHf{.model_types = kHfTypes,
                       .read = read_hf,
                       .config = [](const ModelSection& model) { return gpt_hf_config(gpt_config(model)); },
                       .write = [](const ModelSection& model) { return gpt_to_hf(gpt_config(model)); }};

std::string describe(const JobConfig& config) {
  const ModelSection& model = config.model;
  return fmt::format("{} layers, {} wide, {} heads, vocabulary {}, context {}{}", model.layers, model.hidden,
                     model.heads, model.vocab, model.seq_len, chunks_text(model));
}

}  // namespace

extern constexpr ModelFamily kGptFamily{.plural = "GPTs",
                                        .names = kNames,
                                        .sizes = kGptSizes,
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
