#include "launcher/families/hf_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "launcher/job/build.h"
#include "launcher/keys/job_file.h"
#include "launcher/state/initial_weights.h"
#include "tests/launcher/config/error_matchers.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class HfExchange : public ::testing::Test {
 protected:
  HfExchange() {
    job_.data.kind = DataKind::kSynthetic;
    job_.model.name = "llama";
    job_.model.layers = 2;
    job_.model.hidden = 24;
    job_.model.heads = 6;
    job_.model.kv_heads = 2;
    job_.model.ffn = 40;
    job_.model.vocab = 50;
    job_.model.seq_len = 16;
    job_.model.rope_factor = 8.0;
    job_.model.rope_freq_factors = {1.5, 3.0};
    job_.model.rope_original_context = 8;
    job_ = resolve(job_);
    write(hf_model_of(job_.model).config);
  }
  void write(const nlohmann::ordered_json& config) {
    testing::write_file(folder_ / "config.json", config.dump());
  }
  std::string from() const { return "\"hf:" + folder_.path().string() + "\""; }
  JobConfig parse(const std::string& model_keys) const {
    return parse_config("[model]\n" + model_keys + "\n[data]\nkind = \"synthetic\"\n", "job.toml");
  }

  testing::TemporaryFolder folder_;
  JobConfig job_;
};

TEST_F(HfExchange, AJobNeedsNoDimensions) {
  const JobConfig read = parse("from = " + from());
  EXPECT_EQ(to_toml(resolve(read)), to_toml(job_));
  // The folder is not needed again.
  EXPECT_EQ(read.model.from, "");
  std::filesystem::remove(folder_ / "config.json");
  EXPECT_EQ(to_toml(parse_written_config(to_toml(read), "config.toml")), to_toml(read));
}

TEST_F(HfExchange, GivenKeysGoBefore) {
  const JobConfig read = parse("from = " + from() + "\nseq_len = 8\nrope_theta = 70.0\nname = \"llama\"");
  EXPECT_EQ(read.model.seq_len, 8);
  EXPECT_EQ(read.model.rope_theta, 70.0);
  EXPECT_EQ(read.model.layers, 2);
  EXPECT_THAT(error_message([&] { parse("from = " + from() + "\nname = \"gpt\""); }),
              HasSubstr("has model.name = \"llama\", not \"gpt\""));
  EXPECT_THAT(error_message([&] { parse("from = " + from() + "\nsize = \"1b\""); }),
              HasSubstr("both define the shape"));
  EXPECT_THAT(error_message([&] { parse("from = " + from() + "\ndropout = 0.5"); }),
              AllOf(HasSubstr("model.dropout is for "), HasSubstr("model.name = \"llama\"")));
  EXPECT_THAT(error_message([&] { parse("from = \"" + folder_.path().string() + "\""); }),
              HasSubstr("\"\" or \"hf:FOLDER\""));
  EXPECT_THAT(error_message([&] { parse("from = \"hf:\""); }), HasSubstr("\"\" or \"hf:FOLDER\""));
  EXPECT_THAT(error_message([&] { parse("from = \"hf:nowhere\""); }),
              HasSubstr("there is no folder nowhere"));
}

TEST_F(HfExchange, TheTaskIsThatOfTheSavedClass) {
  ModelSection classifier{
      .name = "bert", .task = ModelTask::kClassify, .classes = 3, .layers = 2, .hidden = 24, .heads = 6};
  classifier.vocab = 50;
  classifier.seq_len = 16;
  classifier.norm_epsilon = 1e-12;
  write(hf_model_of(classifier).config);
  const auto read = [&](const std::string& keys) {
    return parse_config(
               "[model]\nfrom = " + from() + "\n" + keys + "[data]\nkind = \"documents\"\ntrain = \"x\"\n",
               "job.toml")
        .model;
  };
  EXPECT_EQ(read("").task, ModelTask::kClassify);
  EXPECT_EQ(read("").classes, 3);
  EXPECT_EQ(read("classes = 5\n").classes, 5);
  EXPECT_EQ(read("task = \"mlm\"\n").task, ModelTask::kMaskedTokens);
  nlohmann::ordered_json config = hf_model_of(classifier).config;
  config["architectures"] = {"BertModel"};
  write(config);
  EXPECT_EQ(read("").task, ModelTask::kMaskedTokens);
  config["architectures"] = "BertModel";
  write(config);
  EXPECT_THAT(error_message([&] { read(""); }),
              HasSubstr("architectures is \"BertModel\", not a list of names"));
}

TEST_F(HfExchange, UnknownArchitecturesNameTheKnown) {
  write({{"model_type", "mamba"}});
  EXPECT_THAT(
      error_message([&] { parse("from = " + from()); }, ErrorCode::kUnsupported),
      AllOf(HasSubstr(
          "config.json: model_type is \"mamba\", and this build reads gpt2, llama, mistral, qwen2, qwen3")));
  EXPECT_THAT(error_message([&] { hf_model_of({.name = "resnet50"}); }, ErrorCode::kUnsupported),
              HasSubstr("resnet50"));
}

// A shape from config.json is checked like a shape from keys.
TEST_F(HfExchange, ShapesAreChecked) {
  nlohmann::ordered_json config = hf_model_of(job_.model).config;
  config["num_key_value_heads"] = 4;
  write(config);
  EXPECT_THAT(error_message([&] { parse("from = " + from()); }),
              AllOf(HasSubstr("config.json makes no model of this build: "),
                    HasSubstr("model.kv_heads = 4 does not divide model.heads = 6")));
  config["num_key_value_heads"] = 2;
  config["rope_theta"] = 0.0;
  write(config);
  EXPECT_THAT(error_message([&] { parse("from = " + from()); }),
              HasSubstr("rope_theta is 0.0, not a positive number"));
  config["rope_theta"] = 1.0;
  config["num_attention_heads"] = 8;
  config["head_dim"] = 3;
  write(config);
  EXPECT_THAT(error_message([&] { parse("from = " + from()); }), HasSubstr("gives heads of 3"));
}

// Settings that no tensor's shape shows: the same weights would compute something else.
TEST_F(HfExchange, WeightsAreOfTheSameModel) {
  const auto refusal = [&](auto change) {
    ModelSection model = job_.model;
    model.init_from = folder_.path().string();
    change(model);
    return error_message([&] { open_initial_weights(model); });
  };
  EXPECT_THAT(refusal([](ModelSection&) {}), HasSubstr("has neither model.safetensors"));
  EXPECT_THAT(refusal([](ModelSection& model) { model.seq_len = 4; }), HasSubstr("has neither"));
  EXPECT_THAT(refusal([](ModelSection& model) { model.kv_heads = 3; }),
              AllOf(HasSubstr("config.json: num_key_value_heads is 2, but the job has 3"),
                    HasSubstr("model.from = \"hf:")));
  EXPECT_THAT(refusal([](ModelSection& model) { model.rope_theta = 9.0; }),
              HasSubstr("rope_theta is 10000.0, but the job has 9.0"));
  EXPECT_THAT(refusal([](ModelSection& model) { model.rope_factor = 1.0; }), HasSubstr("rope_scaling is {"));
  EXPECT_THAT(refusal([](ModelSection& model) { model.tied = true; }),
              HasSubstr("tie_word_embeddings is false, but the job has true"));
  EXPECT_THAT(refusal([](ModelSection& model) { model.name = "gpt"; }),
              HasSubstr("is of model.name = \"llama\", not \"gpt\""));
  testing::write_file(folder_ / "manifest.json", "{}");
  EXPECT_THAT(refusal([](ModelSection&) {}), HasSubstr("manifest"));
  EXPECT_THAT(refusal([](ModelSection& model) { model.init_from = "nowhere"; }), HasSubstr("nowhere"));
}

}  // namespace
}  // namespace trireme
