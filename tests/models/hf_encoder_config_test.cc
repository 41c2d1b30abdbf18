// config.json of GPT-2, BERT and ViT: shapes come back, and values that are not computed are refused.
#include <gtest/gtest.h>

#include "tests/models/hf_models.h"

namespace trireme {
namespace {

using testing::config_with;
using testing::kBert;
using testing::kGpt;
using testing::kVit;
using testing::message_of;
using testing::TemporaryFolder;

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

}  // namespace
}  // namespace trireme
