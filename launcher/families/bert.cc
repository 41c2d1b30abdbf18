// BERT, trained by masked language modelling.
#include "models/bert.h"

#include "launcher/families/model_family.h"
#include "launcher/families/token_model.h"
#include "launcher/train/token_data.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr std::string_view kNames[] = {"bert"};
constexpr std::string_view kKeys[] = {"size", "layers", "hidden", "heads", "vocab", "seq_len", "dropout"};

BertConfig sized(const ModelSection& model) {
  return model.size.empty() ? BertConfig{.vocab = 0} : bert_config_for_size(model.size);
}

void check(const ModelSection& model) {
  check_has_shape(model);
  const BertConfig base = sized(model);
  const std::int64_t hidden = model.hidden > 0 ? model.hidden : base.hidden;
  const std::int64_t heads = model.heads > 0 ? model.heads : base.heads;
  TRIREME_CHECK(hidden % heads == 0, "model.heads = {} does not divide model.hidden = {}", heads, hidden);
}

void fill_in(JobConfig& config) {
  ModelSection& model = config.model;
  const BertConfig base = sized(model);
  const auto fill = [](std::int64_t& number, std::int64_t value) {
    if (number == 0) number = value;
  };
  fill(model.layers, base.layers);
  fill(model.hidden, base.hidden);
  fill(model.heads, base.heads);
  fill(model.vocab, base.vocab);
  fill(model.seq_len, base.seq_len);
  if (model.vocab == 0) model.vocab = vocab_of_data(config.data) + 1;  // the mask token
  TRIREME_CHECK(config.data.mask_token < model.vocab, "data.mask_token = {} is not below model.vocab = {}",
                config.data.mask_token, model.vocab);
}

BlockList build(const ModelSection& model) {
  return build_bert({.layers = model.layers,
                     .hidden = model.hidden,
                     .heads = model.heads,
                     .vocab = model.vocab,
                     .seq_len = model.seq_len,
                     .dropout = static_cast<float>(model.dropout)});
}

std::string describe(const JobConfig& config) {
  const ModelSection& model = config.model;
  return fmt::format("{} layers, {} wide, {} heads, vocabulary {}, context {}", model.layers, model.hidden,
                     model.heads, model.vocab, model.seq_len);
}

}  // namespace

extern constexpr ModelFamily kBertFamily{.plural = "BERTs",
                                         .names = kNames,
                                         .sizes = kBertSizes,
                                         .keys = kKeys,
                                         .data = kMaskedTokenData,
                                         .check = check,
                                         .fill_in = fill_in,
                                         .build = build,
                                         .describe = describe,
                                         .variant = [](const ModelSection&) { return std::string(); }};

}  // namespace trireme
