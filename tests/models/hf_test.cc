// GPT-2, Llama, Qwen2, Qwen3, BERT and ViT through folders in Hugging Face's format. Compares every bit of
// the state, also with sharded ranks.
#include <gtest/gtest.h>

#include <map>

#include "models/bert_hf.h"
#include "models/gpt_hf.h"
#include "models/llama_hf.h"
#include "models/vit_hf.h"
#include "parallel/comm/local.h"
#include "parallel/run/checkpoint_state.h"
#include "runtime/checkpoint/hf_source.h"
#include "runtime/checkpoint/hf_writer.h"
#include "runtime/checkpoint/safetensors_source.h"
#include "runtime/ops/rope.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using testing::message_of;
using testing::TemporaryFolder;
using testing::write_file;

const GptConfig kGpt{.layers = 2, .hidden = 21, .heads = 3, .vocab = 37, .seq_len = 11, .tied = false};
const BertConfig kBert{.layers = 2, .hidden = 21, .heads = 3, .vocab = 37, .seq_len = 11};
const LlamaConfig kLlama{.layers = 2,
                         .hidden = 36,
                         .heads = 6,
                         .kv_heads = 2,
                         .ffn = 50,
                         .vocab = 37,
                         .seq_len = 11,
                         .rope_theta = 100.0,
                         .rope_scaling = {.factor = 2.0, .low_freq_factor = 1.5, .original_context = 7},
                         .tied = true};

LlamaConfig tiny_qwen2() {
  LlamaConfig config = kLlama;
  config.head_width = 10, config.qkv_bias = true, config.rope_scaling = {};
  return config;
}

LlamaConfig tiny_qwen3() {
  LlamaConfig config = kLlama;
  config.head_width = 10, config.qk_norm = QkNorm::kHead, config.tied = false;
  return config;
}

/// Tiny models of the other types, with every switch of theirs.
LlamaConfig tiny_mistral() {
  LlamaConfig config = kLlama;
  config.window = 5;
  config.rope_scaling = {.kind = ops::RopeScaling::Kind::kLinear, .factor = 2.0};
  return config;
}

LlamaConfig tiny_smollm3() {
  LlamaConfig config = kLlama;
  config.layers = 4, config.layer_pattern = "fn";
  config.rope_scaling = {.kind = ops::RopeScaling::Kind::kYarn,
                         .factor = 2.0,
                         .low_freq_factor = 1.0,
                         .high_freq_factor = 32.0,
                         .original_context = 7,
                         .attention_factor = 1.25};
  return config;
}

LlamaConfig tiny_olmo2() {
  LlamaConfig config = kLlama;
  config.qk_norm = QkNorm::kWhole, config.norm_position = NormPosition::kAfter, config.tied = false;
  return config;
}

LlamaConfig tiny_olmo3() {
  LlamaConfig config = tiny_olmo2();
  config.layers = 3, config.window = 5, config.layer_pattern = "wwf", config.rope_local_theta = 50.0;
  return config;
}

LlamaConfig tiny_gemma3() {
  LlamaConfig config = kLlama;
  config.head_width = 10, config.layers = 3, config.qk_norm = QkNorm::kHead;
  config.norm_position = NormPosition::kBoth, config.norm_unit_offset = true;
  config.mlp_gate = MlpGate::kGelu, config.embedding_scale = 6.0, config.query_scalar = 7.0;
  config.window = 5, config.layer_pattern = "wwf", config.rope_local_theta = 10.0;
  return config;
}

const std::map<std::string, LlamaConfig>& tiny_decoders() {
  static const std::map<std::string, LlamaConfig> decoders{
      {kLlamaHfType, kLlama},       {kMistralHfType, tiny_mistral()}, {kQwen2HfType, tiny_qwen2()},
      {kQwen3HfType, tiny_qwen3()}, {kSmolLm3HfType, tiny_smollm3()}, {kOlmo2HfType, tiny_olmo2()},
      {kOlmo3HfType, tiny_olmo3()}, {kGemma3HfType, tiny_gemma3()}};
  return decoders;
}

const char* const kClassifier = "a classifier";  // with kBert's shape
BertConfig classifier() {
  BertConfig config = kBert;
  config.classes = 3;
  return config;
}

const VitConfig kVit{.layers = 2,
                     .hidden = 21,
                     .heads = 3,
                     .ffn = 34,
                     .patch = 4,
                     .image_size = 12,
                     .classes = 5,
                     .norm_epsilon = 1e-12};

struct Model {
  std::function<BlockList()> build;
  HfModel hf;
};

Model model_of(const std::string& type) {
  if (type == kGptHfType) return {[] { return build_gpt(kGpt); }, gpt_to_hf(kGpt)};
  if (type == kBertHfType) return {[] { return build_bert(kBert); }, bert_to_hf(kBert)};
  if (type == kClassifier) return {[] { return build_bert(classifier()); }, bert_to_hf(classifier())};
  if (type == kVitHfType) return {[] { return build_vit(kVit); }, vit_to_hf(kVit)};
  const LlamaConfig& decoder = tiny_decoders().at(type);
  return {[decoder] { return build_llama(decoder); }, llama_to_hf(decoder)};
}

class HfModels : public ::testing::TestWithParam<const char*> {};
class OlderHfFiles : public ::testing::TestWithParam<const char*> {};

TEST_P(HfModels, TheStateComesBackOnEveryLayout) {
  const Model model = model_of(GetParam());
  const TemporaryFolder folder;
  std::uint64_t hash = 0;
  run_local_ranks(1, [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(model.build(), comm, {.global_batch = 2, .micro_batch = 1, .seed = 3});
    save_state(engine, folder.path());
    hash = engine.state_hash();
  });
  write_hf_folder(SafetensorsReader(folder / kModelFile), model.hf, DType::kFloat32, folder / "hf");
  for (const int ranks : {1, 2, 3}) {
    run_local_ranks(ranks, [&](const std::shared_ptr<Communicator>& comm) {
      Engine engine(
          model.build(), comm,
          {.global_batch = 6, .micro_batch = 1, .seed = 4, .layout = {.zero = ZeroStage::kParameters}});
      EXPECT_NE(engine.state_hash(), hash);
      const HfSource source(folder / "hf", model.hf);
      check_model(engine, source);
      load_model(engine, source);
      EXPECT_EQ(engine.state_hash(), hash) << ranks;
    });
  }
}

// Variants of files on the hub: without the prefix of the outer module, with masks or frequencies, and with a
// head that repeats the token table.
TEST_P(OlderHfFiles, AreRead) {
  const bool gpt = GetParam() == std::string_view(kGptHfType);
  GptConfig tied = kGpt;
  tied.tied = true;
  const HfModel model = gpt ? gpt_to_hf(tied) : llama_to_hf(kLlama);
  std::vector<SafetensorsEntry> wanted, stored;
  run_local_ranks(1, [&](const std::shared_ptr<Communicator>& comm) {
    const Engine engine(gpt ? build_gpt(tied) : build_llama(kLlama), comm,
                        {.global_batch = 1, .micro_batch = 1});
    const TemporaryFolder folder;
    save_state(engine, folder.path());
    const SafetensorsReader saved(folder / kModelFile);
    wanted.assign(saved.tensors().begin(), saved.tensors().end());
  });
  for (const HfTensor& tensor : model.tensors) {
    for (const HfPart& part : tensor.parts) {
      EXPECT_TRUE(part.name.starts_with(model.prefix)) << part.name;
      stored.push_back({part.name.substr(model.prefix.size()), "BF16", part.shape});
    }
  }
  // Nonzero values beside zeros elsewhere.
  std::map<std::string, std::vector<float>> values;
  const auto add = [&](const std::string& name, std::vector<std::int64_t> shape, std::vector<float> numbers) {
    stored.push_back({name, "F32", std::move(shape)});
    values[name] = std::move(numbers);
  };
  if (gpt) {
    add("h.1.attn.bias", {1, 1, 2, 2}, {1, 0, 1, 1});
    add("h.1.attn.masked_bias", {}, {-1e4f});
  } else {
    const RopeFrequencies rope = ops::rope_frequencies(6, kLlama.rope_theta, kLlama.rope_scaling);
    add("layers.1.self_attn.rotary_emb.inv_freq", {3}, {rope.frequencies, rope.frequencies + 3});
  }
  stored.push_back({"lm_head.weight", "F32", {37, gpt ? 21 : 36}});
  const auto message = [&] {
    const TemporaryFolder folder;
    SafetensorsWriter writer(folder / kModelFile, stored);
    for (const SafetensorsEntry& entry : stored) {
      if (values.contains(entry.name)) {
        writer.append(values[entry.name]);
      } else {
        writer.append(std::vector<std::byte>(*safetensors_data_bytes(entry)));
      }
    }
    writer.commit();
    return message_of([&] { HfSource(folder.path(), model).check(wanted); });
  };
  EXPECT_EQ(message(), "");
  for (auto& [name, numbers] : values) {  // tensors of another model
    const std::vector<float> right = numbers;
    numbers.back() *= 0.75f;
    EXPECT_NE(message().find("tensor '" + name + "'"), std::string::npos) << message();
    numbers = right;
  }
  stored.push_back({gpt ? "h.2.attn.c_attn.bias" : "layers.2.mlp.up_proj.weight", "F32", {3}});
  EXPECT_NE(message(), "");
}

INSTANTIATE_TEST_SUITE_P(Families, OlderHfFiles, ::testing::Values(kGptHfType, kLlamaHfType));
INSTANTIATE_TEST_SUITE_P(Families, HfModels,
                         ::testing::Values(kGptHfType, kLlamaHfType, kMistralHfType, kQwen2HfType,
                                           kQwen3HfType, kSmolLm3HfType, kOlmo2HfType, kOlmo3HfType,
                                           kGemma3HfType, kBertHfType, kClassifier, kVitHfType));

// Loads from our checkpoint and from their folder. A head of the requested kind is loaded with the rest.
TEST(NewHeads, OfAClassifierOnAnotherModelsEncoder) {
  const TemporaryFolder folder;
  run_local_ranks(1, [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(build_bert(kBert), comm, {.global_batch = 1, .micro_batch = 1, .seed = 3});
    save_state(engine, folder.path());
  });
  const std::filesystem::path file = folder / kModelFile;
  write_hf_folder(SafetensorsReader(file), bert_to_hf(kBert), DType::kFloat32, folder / "hf");
  const auto start = [](const TensorSource& source, int ranks) {
    std::uint64_t hash = 0;
    run_local_ranks(ranks, [&](const std::shared_ptr<Communicator>& comm) {
      Engine engine(
          build_bert(classifier()), comm,
          {.global_batch = 2, .micro_batch = 1, .seed = 5, .layout = {.zero = ZeroStage::kParameters}});
      const std::vector<std::string> expected{"head.pooler.weight", "head.classifier.weight",
                                              "head.pooler.bias", "head.classifier.bias"};
      EXPECT_EQ(new_tensors(engine, source), expected);
      load_model(engine, source);
      const std::uint64_t mine = engine.state_hash();
      if (comm->rank() == 0) hash = mine;
    });
    return hash;
  };
  const SafetensorsSource ours(file, {.prefix = "head."});
  const std::uint64_t hash = start(ours, 1);
  EXPECT_EQ(start(ours, 2), hash);
  EXPECT_EQ(start(HfSource(folder / "hf", bert_to_hf(classifier()), {.prefix = "head."}), 1), hash);
  run_local_ranks(1, [&](const std::shared_ptr<Communicator>& comm) {
    Engine same(build_bert(kBert), comm, {.global_batch = 1, .micro_batch = 1});
    EXPECT_TRUE(new_tensors(same, ours).empty());
    Engine other(build_bert(classifier()), comm, {.global_batch = 1, .micro_batch = 1});
    EXPECT_NE(message_of([&] { check_model(other, SafetensorsSource(file)); }), "");
  });
}

// The file's own head is ignored, even with the same number of classes.
TEST(NewHeads, OfAnImageModelWithOtherClasses) {
  const TemporaryFolder folder;
  run_local_ranks(1, [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(build_vit(kVit), comm, {.global_batch = 1, .micro_batch = 1, .seed = 3});
    save_state(engine, folder.path());
  });
  const std::filesystem::path file = folder / kModelFile;
  write_hf_folder(SafetensorsReader(file), vit_to_hf(kVit), DType::kFloat32, folder / "hf");
  const NewHead head{.prefix = "heads.head.", .when = NewHead::When::kAlways};
  for (const std::int64_t classes : {kVit.classes, std::int64_t{3}}) {
    VitConfig config = kVit;
    config.classes = classes;
    run_local_ranks(1, [&](const std::shared_ptr<Communicator>& comm) {
      const std::vector<std::string> expected{"heads.head.weight", "heads.head.bias"};
      const auto start = [&](const TensorSource* source) {
        Engine engine(build_vit(config), comm, {.global_batch = 1, .micro_batch = 1, .seed = 5});
        if (source != nullptr) {
          EXPECT_EQ(new_tensors(engine, *source), expected);
          check_model(engine, *source);
          load_model(engine, *source);
        }
        return engine.state_hash();
      };
      const std::uint64_t ours = start(std::make_unique<SafetensorsSource>(file, head).get());
      EXPECT_EQ(start(std::make_unique<HfSource>(folder / "hf", vit_to_hf(config), head).get()), ours);
      EXPECT_NE(start(nullptr), ours);
    });
  }
}

/// config.json with some values replaced; null removes one.
HfConfig config_with(const TemporaryFolder& folder, const HfModel& model, const nlohmann::json& changes) {
  nlohmann::json config = model.config;
  config.merge_patch(changes);
  write_file(folder / "config.json", config.dump());
  return HfConfig(folder.path());
}

TEST(GptHf, TheShapeComesBack) {
  const TemporaryFolder folder;
  const GptConfig gpt = gpt_from_hf(config_with(folder, gpt_to_hf(kGpt), nlohmann::json::object()));
  EXPECT_EQ(gpt_to_hf(gpt).config, gpt_to_hf(kGpt).config);
  EXPECT_EQ(gpt.layers, 2);
  EXPECT_EQ(gpt.seq_len, 11);
  EXPECT_FALSE(gpt.tied);
  // config.json of the published GPT-2: omits shared defaults, and gives the widest layer under its own key.
  const HfConfig published = config_with(folder, gpt_to_hf(kGpt),
                                         {{"tie_word_embeddings", nullptr},
                                          {"n_inner", 84},
                                          {"n_ctx", 11},
                                          {"activation_function", "gelu_pytorch_tanh"}});
  EXPECT_TRUE(gpt_from_hf(published).tied);
  EXPECT_EQ(gpt_from_hf(config_with(folder, gpt_to_hf(kGpt), {{"layer_norm_epsilon", 1e-6}})).norm_epsilon,
            1e-6);
}

TEST(GptHf, RefusesWhatIsComputedOtherwise) {
  const TemporaryFolder folder;
  const auto message = [&](const nlohmann::json& changes) {
    return message_of([&] { gpt_from_hf(config_with(folder, gpt_to_hf(kGpt), changes)); });
  };
  const std::string path = (folder / "config.json").string() + ": ";
  EXPECT_EQ(message({{"activation_function", "relu"}}),
            path + "activation_function is \"relu\", and this build has only \"gelu_new\"");
  EXPECT_EQ(message({{"n_inner", 64}}), path + "n_inner is 64, and this build has only 84");
  EXPECT_EQ(message({{"scale_attn_weights", false}}),
            path + "scale_attn_weights is false, and this build has only true");
  EXPECT_EQ(message({{"scale_attn_by_inverse_layer_idx", true}}),
            path + "scale_attn_by_inverse_layer_idx is true, and this build has only false");
  EXPECT_EQ(message({{"add_cross_attention", true}}),
            path + "add_cross_attention is true, and this build has only false");
  EXPECT_EQ(message({{"n_layer", nullptr}}), path + "n_layer is missing, not an integer from 1 to 2^31");
}

TEST(BertHf, TheShapeComesBack) {
  const TemporaryFolder folder;
  const HfModel model = bert_to_hf(kBert);
  const BertConfig bert = bert_from_hf(config_with(folder, model, nlohmann::json::object()));
  EXPECT_EQ(bert_to_hf(bert).config, model.config);
  EXPECT_EQ(bert_from_hf(config_with(folder, model, {{"layer_norm_eps", 1e-5}})).norm_epsilon, 1e-5);
}

TEST(BertHf, RefusesWhatIsComputedOtherwise) {
  const TemporaryFolder folder;
  const auto refusal = [&](const nlohmann::json& changes) {
    return message_of([&] { bert_from_hf(config_with(folder, bert_to_hf(kBert), changes)); });
  };
  EXPECT_NE(refusal({{"hidden_act", "gelu_new"}}).find("hidden_act"), std::string::npos);
  EXPECT_NE(refusal({{"position_embedding_type", "relative_key"}}).find("position_embedding_type"),
            std::string::npos);
  EXPECT_NE(refusal({{"is_decoder", true}}).find("is_decoder"), std::string::npos);
}

TEST(VitHf, TheShapeComesBack) {
  const TemporaryFolder folder;
  const HfModel model = vit_to_hf(kVit);
  const VitConfig vit = vit_from_hf(config_with(folder, model, nlohmann::json::object()));
  EXPECT_EQ(vit_to_hf(vit).config, model.config);
  EXPECT_EQ(vit.norm_epsilon, 1e-12);
  EXPECT_EQ(vit.classes, 5);
  // Class names are arbitrary; a folder without names has two classes.
  const nlohmann::json named{{"num_labels", nullptr}, {"label2id", nullptr}};
  nlohmann::json pets = named;
  pets["id2label"] = {{"0", "cat"}, {"1", "dog"}, {"2", nullptr}, {"3", nullptr}, {"4", nullptr}};
  EXPECT_EQ(vit_from_hf(config_with(folder, model, pets)).classes, 2);
  nlohmann::json none = named;
  none["id2label"] = nullptr;
  EXPECT_EQ(vit_from_hf(config_with(folder, model, none)).classes, 2);
  none["num_labels"] = 7;
  EXPECT_EQ(vit_from_hf(config_with(folder, model, none)).classes, 7);
}

TEST(VitHf, RefusesWhatIsComputedOtherwise) {
  const TemporaryFolder folder;
  const auto message = [&](const nlohmann::json& changes) {
    return message_of([&] { vit_from_hf(config_with(folder, vit_to_hf(kVit), changes)); });
  };
  const std::string path = (folder / "config.json").string() + ": ";
  EXPECT_EQ(message({{"hidden_act", "gelu_new"}}),
            path + "hidden_act is \"gelu_new\", and this build has only \"gelu\"");
  EXPECT_EQ(message({{"num_channels", 1}}), path + "num_channels is 1, and this build has only 3");
  EXPECT_EQ(message({{"qkv_bias", false}}), path + "qkv_bias is false, and this build has only true");
  EXPECT_EQ(message({{"patch_size", 0}}), path + "patch_size is 0, not an integer from 1 to 2^31");
  EXPECT_EQ(message({{"id2label", "cats"}}), path + "id2label is \"cats\", not an object with entries");
  VitConfig mean = kVit;
  mean.pool = TokenPool::kMean;
  EXPECT_NE(message_of([&] { vit_to_hf(mean); }).find("pools by the mean"), std::string::npos);
}

TEST(LlamaHf, TheShapeComesBack) {
  const TemporaryFolder folder;
  const HfModel model = llama_to_hf(kLlama);
  EXPECT_EQ(llama_to_hf(llama_from_hf(config_with(folder, model, nlohmann::json::object()))).config,
            model.config);
  // The two newer forms of the rotary settings. Without them, and without kv_heads, it is the first Llama.
  const nlohmann::json scaling = model.config.at("rope_scaling");
  nlohmann::json together = scaling;
  together["rope_theta"] = 100.0;
  const nlohmann::json newer{
      {"rope_scaling", nullptr}, {"rope_theta", nullptr}, {"rope_parameters", together}};
  EXPECT_EQ(llama_to_hf(llama_from_hf(config_with(folder, model, newer))).config, model.config);
  const nlohmann::json older{{"rope_scaling", {{"rope_type", nullptr}, {"type", "llama3"}}}};
  EXPECT_EQ(llama_to_hf(llama_from_hf(config_with(folder, model, older))).config, model.config);
  const LlamaConfig first = llama_from_hf(config_with(folder, model,
                                                      {{"rope_scaling", nullptr},
                                                       {"rope_theta", nullptr},
                                                       {"num_key_value_heads", nullptr},
                                                       {"head_dim", nullptr}}));
  EXPECT_EQ(first.rope_scaling.factor, 1.0);
  EXPECT_EQ(first.rope_theta, 10000.0);
  EXPECT_EQ(first.kv_heads, 6);
  EXPECT_EQ(llama_from_hf(config_with(folder, model, {{"max_position_embeddings", 131072}})).seq_len, 2048);
}

TEST(LlamaHf, HeadsHaveAWidthOfTheirOwn) {
  const TemporaryFolder folder;
  const auto width = [&](const nlohmann::json& head_dim) {
    return llama_from_hf(config_with(folder, llama_to_hf(kLlama), {{"head_dim", head_dim}})).head_width;
  };
  EXPECT_EQ(width(8), 8);
  EXPECT_EQ(width(6), 0) << "follows from hidden and heads";
  EXPECT_EQ(width(nullptr), 0);
}

TEST(Qwen2Hf, TheShapeComesBack) {
  const TemporaryFolder folder;
  const HfModel model = llama_to_hf(tiny_qwen2());
  EXPECT_EQ(model.config.at("model_type"), "qwen2");
  const LlamaConfig qwen = llama_from_hf(config_with(folder, model, nlohmann::json::object()));
  EXPECT_TRUE(qwen.qkv_bias);
  EXPECT_EQ(qwen.head_width, 10);
  EXPECT_EQ(llama_to_hf(qwen).config, model.config);
  // The published form of Qwen2.5, and the form that transformers 5 writes.
  const nlohmann::json older{{"head_dim", nullptr}, {"sliding_window", 32768}, {"max_window_layers", 21}};
  EXPECT_EQ(llama_from_hf(config_with(folder, model, older)).head_width, 0);
  const nlohmann::json newer{{"rope_theta", nullptr},
                             {"rope_scaling", nullptr},
                             {"rope_parameters", {{"rope_theta", 100.0}, {"rope_type", "default"}}},
                             {"layer_types", {"full_attention", "full_attention"}},
                             {"sliding_window", nullptr}};
  EXPECT_EQ(llama_to_hf(llama_from_hf(config_with(folder, model, newer))).config, model.config);
  // A missing key has the default of transformers.
  EXPECT_EQ(llama_from_hf(config_with(folder, model, {{"num_key_value_heads", nullptr}})).kv_heads, 32);
}

TEST(Qwen2Hf, RefusesWhatIsComputedOtherwise) {
  const TemporaryFolder folder;
  const auto message = [&](const nlohmann::json& changes) {
    return message_of([&] { llama_from_hf(config_with(folder, llama_to_hf(tiny_qwen2()), changes)); });
  };
  const std::string path = (folder / "config.json").string() + ": ";
  EXPECT_EQ(message({{"use_sliding_window", true}}), "");
  EXPECT_NE(message({{"layer_types", {"full_attention", "sliding_attention"}}})
                .find("layer_types is [\"full_attention\",\"sliding_attention\"], which contradicts "
                      "sliding_window"),
            std::string::npos);
  EXPECT_NE(message({{"layer_types", {"full_attention", "chunked_attention"}}})
                .find("this build has only \"full_attention\" and \"sliding_attention\""),
            std::string::npos);
  EXPECT_EQ(message({{"rope_parameters", {{"rope_type", "dynamic"}, {"factor", 4.0}}}}),
            path +
                "rope_parameters.rope_type is \"dynamic\", and this build has only \"default\", \"linear\", "
                "\"llama3\" and \"yarn\"");
  EXPECT_NE(message({{"architectures", {"Qwen2ForSequenceClassification"}}}).find("architectures"),
            std::string::npos);
  EXPECT_EQ(message({{"hidden_act", "gelu"}}),
            path + "hidden_act is \"gelu\", and this build has only \"silu\"");
}

TEST(Qwen3Hf, TheShapeComesBack) {
  const TemporaryFolder folder;
  const HfModel model = llama_to_hf(tiny_qwen3());
  EXPECT_EQ(model.config.at("model_type"), "qwen3");
  const LlamaConfig qwen = llama_from_hf(config_with(folder, model, nlohmann::json::object()));
  EXPECT_EQ(qwen.qk_norm, QkNorm::kHead);
  EXPECT_FALSE(qwen.qkv_bias);
  EXPECT_EQ(llama_to_hf(qwen).config, model.config);
  EXPECT_EQ(llama_from_hf(config_with(folder, model, {{"head_dim", nullptr}})).head_width, 128)
      << "the default of transformers";
}

TEST(Qwen3Hf, RefusesWhatIsComputedOtherwise) {
  const TemporaryFolder folder;
  const auto message = [&](const nlohmann::json& changes) {
    return message_of([&] { llama_from_hf(config_with(folder, llama_to_hf(tiny_qwen3()), changes)); });
  };
  const std::string path = (folder / "config.json").string() + ": ";
  EXPECT_EQ(message({{"attention_bias", true}}),
            path + "attention_bias is true, and this build has only false");
  LlamaConfig both = tiny_qwen3();
  both.qkv_bias = true;
  EXPECT_NE(message_of([&] { llama_to_hf(both); }).find("this combination of qkv_bias, qk_norm"),
            std::string::npos);
}

TEST(LlamaHf, TheEpsilonOfNormsIsFollowed) {
  const TemporaryFolder folder;
  const auto epsilon = [&](const nlohmann::json& value) {
    return llama_from_hf(config_with(folder, llama_to_hf(kLlama), {{"rms_norm_eps", value}})).norm_epsilon;
  };
  EXPECT_EQ(epsilon(1e-6), 1e-6);
  EXPECT_EQ(epsilon(nullptr), 1e-6) << "the default of transformers";
  LlamaConfig other = kLlama;
  other.norm_epsilon = 3e-6;
  EXPECT_EQ(llama_from_hf(config_with(folder, llama_to_hf(other), nlohmann::json::object())).norm_epsilon,
            3e-6);
}

TEST(LlamaHf, AMistralWithoutAWindowIsALlama) {
  const TemporaryFolder folder;
  const auto mistral = [&](nlohmann::json changes) {
    changes["model_type"] = "mistral";
    changes["architectures"] = {"MistralForCausalLM"};
    return llama_from_hf(config_with(folder, llama_to_hf(kLlama), changes));
  };
  nlohmann::json without = llama_to_hf(kLlama).config;  // null, which is not a missing key
  without["model_type"] = "mistral", without["architectures"] = {"MistralForCausalLM"};
  without["sliding_window"] = nullptr;
  write_file(folder / "config.json", without.dump());
  EXPECT_EQ(llama_to_hf(llama_from_hf(HfConfig(folder.path()))).config, llama_to_hf(kLlama).config);
  EXPECT_EQ(mistral({{"sliding_window", 5}}).window, 5);
  EXPECT_EQ(mistral({{"num_key_value_heads", 2}}).window, 4096) << "the default of transformers";
}

TEST(LlamaHf, TheShapeOfEachTypeComesBack) {
  for (const auto& [type, decoder] : tiny_decoders()) {
    SCOPED_TRACE(type);
    const TemporaryFolder folder;
    const HfModel model = llama_to_hf(decoder);
    EXPECT_EQ(model.config.at("model_type"), type);
    const LlamaConfig read = llama_from_hf(config_with(folder, model, nlohmann::json::object()));
    EXPECT_EQ(llama_to_hf(read).config, model.config);
    EXPECT_EQ(read.window, decoder.window);
    EXPECT_EQ(read.layer_pattern, decoder.layer_pattern);
    EXPECT_EQ(read.rope_scaling, decoder.rope_scaling);
    EXPECT_EQ(read.rope_local_theta, decoder.rope_local_theta);
    EXPECT_EQ(read.query_scalar, decoder.query_scalar);
    EXPECT_EQ(read.embedding_scale, decoder.embedding_scale);
  }
}

// The published form of Gemma 3, from before layer_types and rope_parameters.
TEST(LlamaHf, OlderKeysOfGemma3) {
  const TemporaryFolder folder;
  const nlohmann::json older{
      {"layer_types", nullptr},       {"rope_parameters", nullptr},
      {"sliding_window_pattern", 3},  {"rope_theta", 100.0},
      {"rope_local_base_freq", 10.0}, {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}}};
  const HfModel model = llama_to_hf(tiny_gemma3());
  const LlamaConfig read = llama_from_hf(config_with(folder, model, older));
  EXPECT_EQ(read.layer_pattern, "wwf");
  EXPECT_EQ(read.rope_theta, 100.0);
  EXPECT_EQ(read.rope_local_theta, 10.0);
  EXPECT_EQ(read.rope_scaling.factor, 8.0);
  const auto message = [&](const nlohmann::json& changes) {
    return message_of([&] { llama_from_hf(config_with(folder, model, changes)); });
  };
  EXPECT_NE(message({{"final_logit_softcapping", 30.0}}).find("final_logit_softcapping is 30.0"),
            std::string::npos);
  EXPECT_NE(message({{"attn_logit_softcapping", 50.0}}).find("attn_logit_softcapping is 50.0"),
            std::string::npos);
  EXPECT_NE(message({{"use_bidirectional_attention", true}}).find("use_bidirectional_attention is true"),
            std::string::npos);
  EXPECT_NE(message({{"rope_local_base_freq", 20.0}}).find("rope_local_base_freq is 20.0, which contradicts"),
            std::string::npos);
  EXPECT_NE(message({{"layer_types", {"full_attention"}}}).find("which contradicts num_hidden_layers"),
            std::string::npos);
}

TEST(LlamaHf, RefusesWhatIsComputedOtherwise) {
  const TemporaryFolder folder;
  const auto message = [&](const nlohmann::json& changes) {
    return message_of([&] { llama_from_hf(config_with(folder, llama_to_hf(kLlama), changes)); });
  };
  const std::string path = (folder / "config.json").string() + ": ";
  EXPECT_EQ(message({{"hidden_act", "gelu"}}),
            path + "hidden_act is \"gelu\", and this build has only \"silu\"");
  EXPECT_EQ(message({{"head_dim", -8}}), path + "head_dim is -8, not an integer from 1 to 2^31");
  EXPECT_EQ(message({{"attention_bias", true}}),
            path + "attention_bias is true, and this build has only false");
  EXPECT_EQ(message({{"mlp_bias", true}}), path + "mlp_bias is true, and this build has only false");
  EXPECT_EQ(message({{"rope_scaling", {{"rope_type", "longrope"}}}}),
            path +
                "rope_scaling.rope_type is \"longrope\", and this build has only \"default\", \"linear\", "
                "\"llama3\" and \"yarn\"");
  EXPECT_EQ(message({{"rope_scaling", {{"rope_type", "yarn"}, {"truncate", false}}}}),
            path + "rope_scaling.truncate is false, and this build has only true");
  EXPECT_EQ(message({{"rope_scaling", {{"factor", nullptr}}}}),
            path + "rope_scaling.factor is missing, and this build has only \"llama3\" with a number there");
  // One value in two places.
  const std::string follow =
      ": versions of transformers differ in which they follow, so correct one of them, or "
      "take it out";
  nlohmann::json scaling = llama_to_hf(kLlama).config.at("rope_scaling");
  nlohmann::json newer = scaling;
  newer["rope_theta"] = 100.0;
  EXPECT_EQ(message({{"rope_parameters", newer}}), "");
  newer["rope_theta"] = 50.0;
  EXPECT_EQ(message({{"rope_parameters", newer}}),
            path + "rope_theta is 100.0, which contradicts rope_parameters.rope_theta" + follow);
  newer["rope_theta"] = 100.0;
  newer["factor"] = 3.0;
  EXPECT_NE(message({{"rope_parameters", newer}}).find("which contradicts rope_parameters" + follow),
            std::string::npos);
  EXPECT_EQ(message({{"rope_scaling", {{"rope_theta", 7.0}}}}),
            path + "rope_theta is 100.0, which contradicts rope_scaling.rope_theta" + follow);
  EXPECT_NE(message({{"rope_scaling", {{"type", "linear"}}}}), "");
  EXPECT_EQ(message({{"partial_rotary_factor", 0.5}}),
            path + "partial_rotary_factor is 0.5, and this build has only 1.0");
  EXPECT_EQ(message({{"hidden_size", "36"}}), path + "hidden_size is \"36\", not an integer from 1 to 2^31");
}

}  // namespace
}  // namespace trireme
