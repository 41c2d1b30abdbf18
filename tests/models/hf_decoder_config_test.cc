// config.json of decoders in Llama's form: shapes come back, and values that are not computed are refused.
#include <gtest/gtest.h>

#include "tests/models/hf_models.h"

namespace trireme {
namespace {

using testing::config_with;
using testing::kLlama;
using testing::message_of;
using testing::TemporaryFolder;
using testing::tiny_decoders;
using testing::tiny_gemma3;
using testing::tiny_qwen2;
using testing::tiny_qwen3;
using testing::write_file;

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
