// BERT: masked language modelling, and classification of documents.
#include "models/bert.h"

#include "launcher/data/token_data.h"
#include "launcher/families/model_family.h"
#include "launcher/families/tensor_chunks.h"
#include "launcher/families/token_model.h"
#include "models/bert_hf.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr std::string_view kNames[] = {"bert"};
constexpr std::string_view kKeys[] = {"from",    "task",         "new_head",     "classes", "size",
                                      "layers",  "hidden",       "heads",        "vocab",   "seq_len",
                                      "dropout", "norm_epsilon", "tensor_chunks"};

BertConfig sized(const ModelSection& model) {
  return model.size.empty() ? BertConfig{.vocab = 0} : bert_config_for_size(model.size);
}

void check(const ModelSection& model) {
  check_has_shape(model);
  const BertConfig base = sized(model);
  const std::int64_t hidden = model.hidden > 0 ? model.hidden : base.hidden;
  const std::int64_t heads = model.heads > 0 ? model.heads : base.heads;
  TRIREME_CHECK(hidden % heads == 0, "model.heads = {} does not divide model.hidden = {}", heads, hidden);
  check_tensor_chunks(model, {"heads", heads}, {"hidden", hidden});
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
  if (model.norm_epsilon == 0) model.norm_epsilon = base.norm_epsilon;
  if (model.vocab == 0) model.vocab = vocab_of_data(config.data) + 1;  // the mask token
  if (model.task == ModelTask::kMaskedTokens) {
    model.classes = 0;  // a key of the other task
  } else if (model.classes == 0) {
    const auto prepared = find_prepared_data(config.data.train);
    TRIREME_CHECK(
        prepared && !prepared->info.classes.empty(),
        "model.classes is not known: give it, or data.train = a folder that `trireme data documents` wrote "
        "with labels (data.train = \"{}\" has none)",
        config.data.train);
    model.classes = static_cast<std::int64_t>(prepared->info.classes.size());
  }
  TRIREME_CHECK(model.task == ModelTask::kMaskedTokens || model.classes >= 2,
                "model.classes = {}: a classification has two or more", model.classes);
  TRIREME_CHECK(config.data.class_token < model.vocab, "data.class_token = {} is not below model.vocab = {}",
                config.data.class_token, model.vocab);
  TRIREME_CHECK(config.data.mask_token < model.vocab, "data.mask_token = {} is not below model.vocab = {}",
                config.data.mask_token, model.vocab);
}

BertConfig bert_config(const ModelSection& model) {
  return {.layers = model.layers,
          .hidden = model.hidden,
          .heads = model.heads,
          .vocab = model.vocab,
          .seq_len = model.seq_len,
          .dropout = static_cast<float>(model.dropout),
          .norm_epsilon = model.norm_epsilon,
          .classes = model.task == ModelTask::kClassify ? model.classes : 0,
          .tensor_chunks = static_cast<int>(model.tensor_chunks)};
}

BlockList build(const ModelSection& model) {
  return build_bert(bert_config(model));
}

ModelSection read_hf(const HfConfig& config) {
  const BertConfig bert = bert_from_hf(config);
  ModelSection model;
  model.layers = bert.layers;
  model.hidden = bert.hidden;
  model.heads = bert.heads;
  model.vocab = bert.vocab;
  model.seq_len = bert.seq_len;
  model.norm_epsilon = bert.norm_epsilon;
  model.classes = bert.classes;
  if (bert.classes > 0) model.task = ModelTask::kClassify;
  return model;
}

constexpr std::string_view kHfTypes[] = {kBertHfType};
constexpr HfFormat kHf{.model_types = kHfTypes,
                       .read = read_hf,
                       .config = [](const ModelSection& model) { return bert_hf_config(bert_config(model)); },
                       .write = [](const ModelSection& model) { return bert_to_hf(bert_config(model)); },
                       .classifier = kBertHfClassifier};

std::string describe(const JobConfig& config) {
  const ModelSection& model = config.model;
  std::string text = fmt::format("{} layers, {} wide, {} heads, vocabulary {}, context {}", model.layers,
                                 model.hidden, model.heads, model.vocab, model.seq_len);
  if (model.classes > 0) text += fmt::format(", {} classes", model.classes);
  text += layer_chunks_text(model);
  return text;
}

}  // namespace

extern constexpr ModelFamily kBertFamily{.plural = "BERTs",
                                         .names = kNames,
                                         .sizes = kBertSizes,
                                         .keys = kKeys,
                                         .data = kMaskedTokenData,
                                         .class_head = "head.",
                                         .class_layer = "head.classifier.",
                                         .check = check,
                                         .fill_in = fill_in,
                                         .build = build,
                                         .describe = describe,
                                         .variant = [](const ModelSection&) { return std::string(); },
                                         .hf = &kHf};

}  // namespace trireme
