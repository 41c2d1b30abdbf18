// No key of a Hugging Face transformers folder is ignored silently. The test changes every key of
// config.json and every tensor in turn. The change must have an effect, be refused by name or be noted in the
// log, unless the key is in the table of keys without effect.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "launcher/families/hf_exchange.h"
#include "launcher/families/model_family.h"
#include "launcher/job/build.h"
#include "launcher/keys/job_file.h"
#include "launcher/state/initial_weights.h"
#include "runtime/checkpoint/safetensors_writer.h"
#include "runtime/ops/rope.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

// As written by transformers 4 and 5, with every key of either, and keys of older versions.
const char* const kCommon = R"({
  "_name_or_path": "", "chunk_size_feed_forward": 0, "dtype": "float32", "torch_dtype": "float32",
  "initializer_range": 0.02, "is_encoder_decoder": false, "output_attentions": false, "output_hidden_states": false,
  "return_dict": true, "transformers_version": "5.24.0", "problem_type": "single_label_classification",
  "tie_encoder_decoder": false, "torchscript": false, "use_bfloat16": false, "pruned_heads": {},
  "finetuning_task": null, "tokenizer_class": null, "prefix": null, "bad_words_ids": null, "max_length": 20,
  "min_length": 0, "do_sample": false, "num_beams": 1, "temperature": 1.0, "top_k": 50, "top_p": 1.0,
  "repetition_penalty": 1.0, "length_penalty": 1.0, "no_repeat_ngram_size": 0, "num_return_sequences": 1,
  "bos_token_id": null, "eos_token_id": null, "pad_token_id": 0, "sep_token_id": null, "quantization_config": null,
  "id2label": {"0": "neg", "1": "neutral", "2": "pos"}, "label2id": {"neg": 0, "neutral": 1, "pos": 2},
  "num_labels": 3})";

const char* const kGpt = R"({
  "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "activation_function": "gelu_new", "vocab_size": 20,
  "n_positions": 6, "n_ctx": 6, "n_embd": 8, "n_layer": 1, "n_head": 2, "n_inner": null, "embd_pdrop": 0.1,
  "attn_pdrop": 0.1, "resid_pdrop": 0.1, "layer_norm_epsilon": 1e-05, "add_cross_attention": false,
  "reorder_and_upcast_attn": false, "scale_attn_by_inverse_layer_idx": false, "scale_attn_weights": true,
  "summary_activation": null, "summary_first_dropout": 0.1, "summary_proj_to_labels": true,
  "summary_type": "cls_index", "summary_use_proj": true, "tie_word_embeddings": true, "use_cache": true,
  "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 6,
  "gradient_checkpointing": false, "task_specific_params": {"text-generation": {"max_length": 50}}})";

const char* const kLlama = R"({
  "model_type": "llama", "architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
  "head_dim": 4, "hidden_act": "silu", "hidden_size": 8, "intermediate_size": 12, "max_position_embeddings": 16,
  "mlp_bias": false, "num_attention_heads": 2, "num_hidden_layers": 1, "num_key_value_heads": 1,
  "pretraining_tp": 1, "rms_norm_eps": 1e-05, "partial_rotary_factor": 1.0,
  "tie_word_embeddings": true, "use_cache": true, "vocab_size": 20})";

const char* const kQwen2 = R"({
  "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "hidden_act": "silu",
  "hidden_size": 8, "intermediate_size": 12, "max_position_embeddings": 16, "max_window_layers": 21,
  "num_attention_heads": 2, "num_hidden_layers": 1, "num_key_value_heads": 1, "rms_norm_eps": 1e-06,
  "rope_theta": 1000000.0, "sliding_window": 32768, "use_sliding_window": false, "tie_word_embeddings": true,
  "use_cache": true, "vocab_size": 20, "layer_types": ["full_attention"]})";

const char* const kQwen3 = R"({
  "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "attention_bias": false, "head_dim": 6})";

const char* const kSmolLm3 = R"({
  "model_type": "smollm3", "architectures": ["SmolLM3ForCausalLM"], "attention_bias": false, "mlp_bias": false,
  "no_rope_layers": [0], "no_rope_layer_interval": 4, "sliding_window": null})";

const char* const kOlmo2 = R"({
  "model_type": "olmo2", "architectures": ["Olmo2ForCausalLM"], "attention_bias": false})";

const char* const kGemma3 = R"({
  "model_type": "gemma3_text", "architectures": ["Gemma3ForCausalLM"], "attention_bias": false, "head_dim": 6,
  "hidden_act": null, "hidden_activation": "gelu_pytorch_tanh", "attn_logit_softcapping": null,
  "final_logit_softcapping": null, "query_pre_attn_scalar": 5, "use_bidirectional_attention": false,
  "sliding_window": 4, "use_sliding_window": null, "max_window_layers": null, "_sliding_window_pattern": 6,
  "num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"], "rope_theta": null,
  "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 500.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 20.0}}})";

const char* const kBert = R"({
  "model_type": "bert", "architectures": ["BertForMaskedLM"], "attention_probs_dropout_prob": 0.1,
  "classifier_dropout": null, "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": 8,
  "intermediate_size": 32, "is_decoder": false, "add_cross_attention": false, "layer_norm_eps": 1e-12,
  "max_position_embeddings": 6, "num_attention_heads": 2, "num_hidden_layers": 1, "tie_word_embeddings": true,
  "position_embedding_type": "absolute", "type_vocab_size": 2, "use_cache": true, "vocab_size": 20,
  "gradient_checkpointing": false, "directionality": "bidi", "pooler_fc_size": 768, "pooler_num_attention_heads": 12,
  "pooler_num_fc_layers": 3, "pooler_size_per_head": 128, "pooler_type": "first_token_transform"})";

const char* const kVit = R"({
  "model_type": "vit", "architectures": ["ViTForImageClassification"], "attention_probs_dropout_prob": 0.0,
  "encoder_stride": 16, "hidden_act": "gelu", "hidden_dropout_prob": 0.0, "hidden_size": 8, "image_size": 8,
  "intermediate_size": 12, "layer_norm_eps": 1e-12, "num_attention_heads": 2, "num_channels": 3,
  "num_hidden_layers": 1, "patch_size": 4, "pooler_act": "tanh", "pooler_output_size": 8, "qkv_bias": true})";

// The newer and the older form of Llama's rope parameters.
const char* const kRopeParameters = R"({"rope_parameters": {"rope_type": "llama3", "factor": 4.0,
  "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8, "rope_theta": 500.0}})";
const char* const kRopeScaling = R"({"rope_theta": 500.0, "rope_scaling": {"type": "llama3", "factor": 4.0,
  "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8}})";

const char* const kClassifier = R"({"architectures": ["BertForSequenceClassification"]})";

struct Folder {
  const char *config, *patch;
};
const std::map<std::string, Folder> kFolders{{"gpt", {kGpt, "{}"}},
                                             {"llama", {kLlama, kRopeParameters}},
                                             {"llama_older", {kLlama, kRopeScaling}},
                                             {"qwen2", {kQwen2, "{}"}},
                                             {"qwen3", {kQwen2, kQwen3}},
                                             {"smollm3", {kQwen2, kSmolLm3}},
                                             {"olmo2", {kQwen2, kOlmo2}},
                                             {"gemma3", {kQwen2, kGemma3}},
                                             {"bert", {kBert, "{}"}},
                                             {"bert_classifier", {kBert, kClassifier}},
                                             {"vit", {kVit, "{}"}}};

Json config_of(const std::string& name) {
  Json config = Json::parse(kCommon);
  config.update(Json::parse(kFolders.at(name).config));
  config.merge_patch(Json::parse(kFolders.at(name).patch));
  return config;
}

// Other valid values where one of the same type is not enough, with further changes that they need.
const std::map<std::string, const char*> kOtherValues{
    {"gpt.architectures", R"({"architectures": ["GPT2DoubleHeadsModel"]})"},
    {"gpt.activation_function", R"({"activation_function": "relu"})"},
    {"gpt.task_specific_params", R"({"task_specific_params": {"a": 1}})"},
    {"llama.architectures", R"({"architectures": ["LlamaForSequenceClassification"]})"},
    {"llama.hidden_size", R"({"hidden_size": 16, "head_dim": 8})"},
    {"llama.num_attention_heads", R"({"num_attention_heads": 4, "head_dim": 2})"},
    {"qwen2.architectures", R"({"architectures": ["Qwen2ForSequenceClassification"]})"},
    {"qwen2.layer_types", R"({"layer_types": ["sliding_attention"]})"},
    {"qwen2.sliding_window", R"({"sliding_window": 4})"},
    {"qwen3.architectures", R"({"architectures": ["Qwen3ForSequenceClassification"]})"},
    {"qwen3.layer_types", R"({"layer_types": ["sliding_attention"]})"},
    {"qwen3.sliding_window", R"({"sliding_window": 4})"},
    {"use_sliding_window",
     R"({"use_sliding_window": true, "layer_types": ["sliding_attention"], "sliding_window": 4})"},
    {"smollm3.architectures", R"({"architectures": ["SmolLM3ForSequenceClassification"]})"},
    {"smollm3.layer_types", R"({"layer_types": ["sliding_attention"]})"},
    {"smollm3.no_rope_layers", R"({"no_rope_layers": [1]})"},
    {"smollm3.num_hidden_layers",
     R"({"num_hidden_layers": 2, "no_rope_layers": [0, 1], "layer_types": null})"},
    {"olmo2.architectures", R"({"architectures": ["Olmo2ForSequenceClassification"]})"},
    {"olmo2.layer_types", R"({"layer_types": ["sliding_attention"]})"},
    {"gemma3.architectures", R"({"architectures": ["Gemma3ForSequenceClassification"]})"},
    {"gemma3.layer_types", R"({"layer_types": ["full_attention", "full_attention"]})"},
    {"bert.architectures", R"({"architectures": ["BertForSequenceClassification"]})"},
    {"bert_classifier.architectures", R"({"architectures": ["BertModel"]})"},
    {"bert.hidden_size", R"({"hidden_size": 16, "intermediate_size": 64})"},
    {"bert_classifier.hidden_size", R"({"hidden_size": 16, "intermediate_size": 64})"},
    {"vit.architectures", R"({"architectures": ["ViTModel"]})"},
    {"problem_type", R"({"problem_type": "regression"})"},
    {"pruned_heads", R"({"pruned_heads": {"0": [1]}})"},
    {"id2label", R"({"id2label": {"0": "bad"}, "label2id": {"neg": null, "bad": 0}})"},
    {"label2id", R"({"label2id": {"neg": 2, "pos": 0}})"},
    {"quantization_config", R"({"quantization_config": {"bits": 4}})"}};

Json other_value(const Json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number_integer()) return value == 0 ? 1 : 2 * value.get<int>();
  if (value.is_number_float()) return value == 0.0 ? 0.25 : value.get<double>() / 2;
  return value.is_string() ? Json(value.get<std::string>() + "_other") : Json(5);
}

/// The patch of config.json that changes `key`; "rope_scaling.factor" is a nested key.
Json other_patch(const std::string& folder, const std::string& key, const Json& value) {
  const std::string family = folder == "llama_older" ? "llama" : folder;
  for (const std::string& name : {family + "." + key, key}) {
    if (kOtherValues.contains(name)) return Json::parse(kOtherValues.at(name));
  }
  const auto dot = key.find('.');
  if (dot == std::string::npos) return {{key, other_value(value)}};
  return {{key.substr(0, dot), {{key.substr(dot + 1), other_value(value)}}}};
}

using Tensors = std::map<std::string, std::pair<std::vector<std::int64_t>, std::vector<float>>>;

std::size_t num_elems(const std::vector<std::int64_t>& shape) {
  return static_cast<std::size_t>(
      std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies()));
}

/// The result of an import.
struct Imported {
  std::string refusal;  // empty: none
  std::string job;      // resolved
  std::vector<float> weights;
  std::vector<std::string> class_names;
  std::string notes;
  std::map<std::string, std::string_view> idle;
};

class HfImport : public ::testing::TestWithParam<const char*> {
 protected:
  HfImport() {
    write(config_of(GetParam()));
    const HfModel model = hf_model_of(resolved().model);
    float next = 0.0f;
    for (const HfTensor& tensor : model.tensors) {
      for (const HfPart& part : tensor.parts) add(part.name, part.shape, next);
    }
    for (const HfCopy& copy : model.copies) tensors_[copy.name] = tensors_.at(copy.of);
    const std::string folder = GetParam();
    if (folder == "gpt") {
      add("transformer.h.0.attn.bias", {1, 1, 2, 2}, next);
      tensors_["transformer.h.0.attn.bias"].second = {1, 0, 1, 1};
      tensors_["transformer.h.0.attn.masked_bias"] = {{}, {-1e9f}};
    } else if (folder.starts_with("llama")) {
      const RopeFrequencies rope = ops::rope_frequencies(4, 500.0, {.factor = 4.0, .original_context = 8});
      tensors_["model.layers.0.self_attn.rotary_emb.inv_freq"] = {
          {2}, {static_cast<float>(rope.frequencies[0]), static_cast<float>(rope.frequencies[1])}};
    } else if (folder.starts_with("bert")) {
      tensors_["bert.embeddings.position_ids"] = {{1, 3}, {0, 1, 2}};
      add("cls.seq_relationship.bias", {2}, next);
      add(folder == "bert" ? "bert.pooler.dense.bias" : "cls.predictions.bias", {20}, next);
    } else if (folder == "vit") {
      add("vit.pooler.dense.bias", {8}, next);
    }
    write(tensors_);
    baseline_ = imported();
  }

  void add(const std::string& name, const std::vector<std::int64_t>& shape, float& next) {
    std::vector<float> values(num_elems(shape));
    std::iota(values.begin(), values.end(), next);
    next += static_cast<float>(values.size());
    tensors_[name] = {shape, std::move(values)};
  }
  void write(const Json& config) { testing::write_file(folder_ / "config.json", config.dump()); }
  void write(const Tensors& tensors) {
    std::vector<SafetensorsEntry> entries;
    for (const auto& [name, tensor] : tensors) entries.push_back({name, "F32", tensor.first});
    SafetensorsWriter writer(folder_ / "model.safetensors", entries);
    for (const auto& [name, tensor] : tensors) writer.append(tensor.second);
    writer.commit();
  }
  JobConfig resolved() {
    JobConfig job;
    job.data.kind = DataKind::kSynthetic;
    job.model = model_of_hf_folder(folder_.path());
    if (job.model.task == ModelTask::kClassify) {
      job.data.kind = DataKind::kDocuments;
      job.data.train = "documents";
    }
    return resolve(job);
  }

  Imported imported() {
    Imported result;
    try {
      JobConfig job = resolved();
      result.job = to_toml(job);
      const HfConfig config(folder_.path());
      family_of(job.model).hf->read(config);
      result.idle = config.idle();
      job.model.init_from = folder_.path().string();
      const InitialWeights weights = open_initial_weights(job.model);
      read(job.model, weights, result);
    } catch (const Error& error) {
      result.refusal = error.what();
    }
    return result;
  }
  static void read(const ModelSection& model, const InitialWeights& weights, Imported& result) {
    std::vector<SafetensorsEntry> wanted;
    for (const HfTensor& tensor : hf_model_of(model).tensors) {
      std::vector<std::int64_t> shape;
      for (const HfPart& part : tensor.parts) {
        std::vector<std::int64_t> rows = part.shape;
        if (part.transposed) std::swap(rows[0], rows[1]);
        if (!shape.empty()) rows[0] += shape[0];
        shape = rows;
      }
      if (!weights.source->is_new(tensor.name)) wanted.push_back({tensor.name, "F32", shape});
    }
    weights.source->check(wanted);
    for (const SafetensorsEntry& entry : wanted) {
      std::vector<float> values(num_elems(entry.shape));
      weights.source->copy_floats(entry.name, 0, values);
      result.weights.insert(result.weights.end(), values.begin(), values.end());
    }
    result.class_names = weights.class_names;
    for (const auto& notes : {weights.notes, weights.source->notes()}) {
      for (const std::string& note : notes) result.notes += note + "\n";
    }
  }

  /// A later refusal because of the weights also shows that the key had an effect.
  void expect_not_ignored(const std::string& key, const Imported& changed) {
    const std::string top = key.substr(0, key.find('.'));
    if (!changed.job.empty() && changed.job != baseline_.job) return;
    if (!changed.refusal.empty()) {
      EXPECT_THAT(changed.refusal, HasSubstr(top));
    } else if (changed.notes != baseline_.notes) {
      EXPECT_THAT(changed.notes, HasSubstr(key + " is "));
    } else if (changed.class_names == baseline_.class_names) {
      EXPECT_TRUE(changed.idle.contains(key)) << key << " is ignored silently";
      EXPECT_EQ(changed.weights, baseline_.weights) << key;
    }
  }

  testing::TemporaryFolder folder_;
  Tensors tensors_;
  Imported baseline_;
};

TEST_P(HfImport, NoKeyIsIgnoredSilently) {
  ASSERT_EQ(baseline_.refusal, "");
  const Json config = config_of(GetParam());
  const auto try_key = [&](const std::string& key, const Json& value) {
    SCOPED_TRACE(key);
    Json changed = config;
    changed.merge_patch(other_patch(GetParam(), key, value));
    ASSERT_NE(changed, config);
    write(changed);
    expect_not_ignored(key, imported());
  };
  for (const auto& [key, value] : config.items()) {
    if (!key.starts_with("rope_") || !value.is_object()) {
      try_key(key, value);
      continue;
    }
    for (const auto& [inner, inner_value] : value.items()) try_key(key + "." + inner, inner_value);
  }
  Json unknown = config;
  unknown["attention_multiplier"] = 0.5;
  write(unknown);
  EXPECT_THAT(imported().notes, HasSubstr("attention_multiplier is 0.5: not known here"));
}

TEST_P(HfImport, NoTensorIsIgnoredSilently) {
  ASSERT_EQ(baseline_.refusal, "");
  for (const auto& [name, tensor] : tensors_) {
    SCOPED_TRACE(name);
    Tensors changed = tensors_;
    float& last = changed[name].second.back();
    last = 1e-6f * last + 0.5f;
    write(changed);
    const Imported other = imported();
    const bool is_followed = other.refusal.empty() && other.weights != baseline_.weights;
    if (!is_followed) {
      EXPECT_THAT(other.refusal + other.notes, HasSubstr(name));
    }

    const bool is_spare = other.weights == baseline_.weights || !other.refusal.empty();  // not a part alone
    changed = tensors_;
    changed.erase(name);
    write(changed);
    const Imported without = imported();
    if (!without.refusal.empty() || !is_spare) {
      const std::string layer = name.substr(name.rfind('.', name.rfind('.') - 1) + 1);
      EXPECT_THAT(without.refusal, HasSubstr(layer));
    } else {
      EXPECT_EQ(without.weights, baseline_.weights);
    }

    changed["x" + name + ".x"] = tensor;
    write(changed);
    EXPECT_THAT(imported().refusal, HasSubstr(name)) << name;
  }
}

TEST_P(HfImport, LabelsComeByName) {
  const JobConfig job = resolved();
  if (!counts_classes(job.model)) GTEST_SKIP() << "a model without classes";
  EXPECT_EQ(baseline_.class_names, (std::vector<std::string>{"neg", "neutral", "pos"}));
  ModelSection model = job.model;
  model.init_from = folder_.path().string();
  const auto start = [&](const std::vector<std::string>& names) {
    Imported result;
    try {
      const InitialWeights weights = open_initial_weights(model, {.where = "the data", .names = names});
      read(model, weights, result);
    } catch (const Error& error) {
      result.refusal = error.what();
    }
    return result;
  };
  const Imported same = start({"neg", "neutral", "pos"}), other = start({"pos", "neg", "neutral"});
  EXPECT_EQ(same.weights, baseline_.weights);
  EXPECT_EQ(same.notes, baseline_.notes);
  EXPECT_EQ(other.class_names, (std::vector<std::string>{"pos", "neg", "neutral"}));
  EXPECT_THAT(other.notes, HasSubstr("the rows of the class head are reordered as in the data"));
  // The head is last: weight [3, 8], then bias [3].
  const std::size_t head = same.weights.size() - 27;
  std::vector<float> expected(same.weights.begin(), same.weights.begin() + static_cast<std::ptrdiff_t>(head));
  for (const std::size_t row : {2, 0, 1}) {
    for (std::size_t i = 0; i < 8; ++i) expected.push_back(same.weights[head + row * 8 + i]);
  }
  for (const std::size_t row : {2, 0, 1}) expected.push_back(same.weights[head + 24 + row]);
  EXPECT_EQ(other.weights, expected);

  const Imported fewer = start({"pos", "neg"});
  EXPECT_EQ(fewer.class_names, (std::vector<std::string>{"pos", "neg", "neutral"}));
  EXPECT_EQ(fewer.weights, expected);
  EXPECT_THAT(fewer.notes, HasSubstr("the data names 2 of the 3 classes"));
  EXPECT_THAT(
      start({"good", "neg", "neutral"}).refusal,
      ::testing::AllOf(HasSubstr("the weights have no class 'good'"), HasSubstr("'neg', 'neutral', 'pos'"),
                       HasSubstr("'good', 'neg', 'neutral'"), HasSubstr("model.new_head = true")));
  model.new_head = true;
  const Imported anew = start({"good", "neg", "neutral"});
  EXPECT_EQ(anew.refusal, "");
  EXPECT_EQ(anew.class_names, (std::vector<std::string>{"good", "neg", "neutral"}));

  const HfModel written = hf_model_of(job.model, {"pos", "neg"});
  EXPECT_EQ(written.config.at("id2label").dump(), R"({"0":"pos","1":"neg","2":"LABEL_2"})");
  EXPECT_EQ(written.config.at("label2id").at("neg"), 1);
}

// num_labels alone in config.json gives that number of classes; without it there are two.
TEST_P(HfImport, LabelsAreCounted) {
  if (!counts_classes(resolved().model)) GTEST_SKIP() << "a model without classes";
  Json config = config_of(GetParam());
  config.erase("id2label");
  config.erase("label2id");
  config["num_labels"] = 5;
  write(config);
  EXPECT_EQ(resolved().model.classes, 5);
  config.erase("num_labels");
  write(config);
  EXPECT_EQ(resolved().model.classes, 2);
}

INSTANTIATE_TEST_SUITE_P(Folders, HfImport,
                         ::testing::Values("gpt", "llama", "llama_older", "qwen2", "qwen3", "smollm3",
                                           "olmo2", "gemma3", "bert", "bert_classifier", "vit"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace trireme
