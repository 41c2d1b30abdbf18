#include "models/bert_hf.h"

#include <fmt/format.h>

#include <array>

#include "models/bert_embedding.h"
#include "models/encoder_hf.h"
#include "runtime/checkpoint/hf_labels.h"

namespace trireme {
namespace {

// The body is the same in all of these classes. Tensors of other heads are left out by name.
constexpr std::array<std::string_view, 9> kClasses{kBertHfClassifier,
                                                   "BertForMaskedLM",
                                                   "BertForPreTraining",
                                                   "BertLMHeadModel",
                                                   "BertModel",
                                                   "BertForNextSentencePrediction",
                                                   "BertForTokenClassification",
                                                   "BertForMultipleChoice",
                                                   "BertForQuestionAnswering"};

// Ignored where config.json is not a classifier's, or the pooler is not read.
constexpr std::string_view kOtherHeads[] = {"num_labels", "_num_labels", "id2label", "label2id",
                                            "problem_type"};
constexpr std::string_view kOldPooler[] = {
    "directionality",       "pooler_fc_size",       "pooler_num_attention_heads",
    "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type"};
constexpr HfIdleKeys kIdle[] = {{"classes of a head that the folder does not have", kOtherHeads},
                                {"what no version of transformers' BERT reads", kOldPooler}};

/// 0 if config.json is not a classifier's.
std::int64_t num_classes(const HfConfig& config) {
  const std::string saved_class = config.architecture(kClasses);
  if (saved_class == kBertHfClassifier) {
    const HfLabels labels = read_classes(config);
    return labels.count > 0 ? labels.count : kDefaultHfLabels;
  }
  return saved_class.empty() ? read_classes(config).count : 0;
}

struct Linear {
  const char *ours, *theirs;
  int in, out;  // widths, as multiples of the residual stream's
};
constexpr Linear kLinears[] = {{"attention.out", "attention.output.dense", 1, 1},
                               {"mlp.up", "intermediate.dense", 1, 4},
                               {"mlp.down", "output.dense", 4, 1}};

void add_layer(EncoderHfTable& table, std::int64_t layer, std::int64_t hidden) {
  const std::string ours = fmt::format("blocks.{}.", layer),
                    theirs = fmt::format("bert.encoder.layer.{}.", layer);
  table.add_qkv(ours + "attention.qkv.weight", ours + "attention.qkv.bias", theirs + "attention.self.");
  for (const Linear& linear : kLinears) {
    table.add_linear(ours + linear.ours, theirs + linear.theirs, linear.in * hidden, linear.out * hidden);
  }
  table.add_norm(ours + "norm1", theirs + "attention.output.LayerNorm");
  table.add_norm(ours + "norm2", theirs + "output.LayerNorm");
}

}  // namespace

BertConfig bert_from_hf(const HfConfig& config) {
  const BertConfig bert{.layers = config.count("num_hidden_layers"),
                        .hidden = config.count("hidden_size"),
                        .heads = config.count("num_attention_heads"),
                        .vocab = config.count("vocab_size"),
                        .seq_len = config.count("max_position_embeddings", 512),
                        .norm_epsilon = config.positive("layer_norm_eps", BertConfig().norm_epsilon),
                        .classes = num_classes(config)};
  config.expect("hidden_act", "gelu");
  config.expect("intermediate_size", 4 * bert.hidden);
  config.expect("type_vocab_size", 2);
  config.expect("position_embedding_type", "absolute");
  config.expect("is_decoder", false);
  config.expect("tie_word_embeddings", true);
  config.settle(kIdle);
  return bert;
}

nlohmann::ordered_json bert_hf_config(const BertConfig& config) {
  const double dropout = static_cast<double>(config.dropout);
  nlohmann::ordered_json json = {
      {"architectures", {config.classes > 0 ? kBertHfClassifier : "BertForMaskedLM"}},
      {"model_type", kBertHfType},
      {"vocab_size", config.vocab},
      {"hidden_size", config.hidden},
      {"num_hidden_layers", config.layers},
      {"num_attention_heads", config.heads},
      {"intermediate_size", 4 * config.hidden},
      {"max_position_embeddings", config.seq_len},
      {"type_vocab_size", 2},
      {"hidden_act", "gelu"},
      {"layer_norm_eps", config.norm_epsilon},
      {"hidden_dropout_prob", dropout},
      {"attention_probs_dropout_prob", dropout},
      {"position_embedding_type", "absolute"},
      {"is_decoder", false},
      {"tie_word_embeddings", true}};
  if (config.classes > 0) {  // transformers derives the number of labels from their names
    set_labels(json, config.classes, {});
    json["problem_type"] = "single_label_classification";
  }
  return json;
}

HfModel bert_to_hf(const BertConfig& config) {
  EncoderHfTable table(config.hidden);
  const std::string embeddings = "bert.embeddings.", head = "cls.predictions.";
  table.add("embedding.tokens", embeddings + "word_embeddings.weight", {config.vocab, config.hidden});
  table.add("embedding.positions", embeddings + "position_embeddings.weight",
            {config.seq_len, config.hidden});
  table.add("embedding.types", embeddings + "token_type_embeddings.weight", {2, config.hidden});
  table.add_norm("embedding.norm", embeddings + "LayerNorm");
  for (std::int64_t i = 0; i < config.layers; ++i) add_layer(table, i, config.hidden);
  if (config.classes > 0) {
    table.add_linear("head.pooler", "bert.pooler.dense", config.hidden, config.hidden);
    table.add_linear("head.classifier", "classifier", config.hidden, config.classes);
    return {.config = bert_hf_config(config),
            .prefix = "bert.",
            .tensors = std::move(table.tensors),
            .derived = {derived_positions("embeddings.position_ids")},
            .unused = {"cls.predictions.", "cls.seq_relationship.", "qa_outputs."}};
  }
  table.add_linear("head.transform", head + "transform.dense", config.hidden, config.hidden);
  table.add_norm("head.norm", head + "transform.LayerNorm");
  table.add("head.bias", head + "bias", {config.vocab});
  return {.config = bert_hf_config(config),
          .prefix = "bert.",
          .tensors = std::move(table.tensors),
          .copies = {{"cls.predictions.decoder.weight", embeddings + "word_embeddings.weight"},
                     {"cls.predictions.decoder.bias", head + "bias"}},
          .can_be_untied = false,
          .derived = {derived_positions("embeddings.position_ids")},
          .unused = {"bert.pooler.dense.", "cls.seq_relationship."}};
}

}  // namespace trireme
