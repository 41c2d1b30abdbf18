// Keys outside their scope: refused when given, omitted from a run's files.
#include "launcher/keys/key_scopes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/keys/job_file.h"
#include "tests/launcher/config/error_matchers.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kGptJob = "[model]\nsize = \"124m\"\n[data]\ntrain = \"tokens\"\n";

JobConfig parse(const std::string& more, const std::vector<std::string>& overrides = {}) {
  return parse_config(kGptJob + more, "job.toml", overrides);
}

std::string parse_error(const std::string& more, const std::vector<std::string>& overrides = {}) {
  return error_message([&] { parse(more, overrides); }, ErrorCode::kInvalidInput);
}

constexpr const char* kImageJob = "[model]\nname = \"resnet20\"\n[data]\nkind = \"images\"\ntrain = \"x\"\n";

std::string image_error(const std::string& more, const std::vector<std::string>& overrides = {}) {
  return error_message([&] { parse_config(kImageJob + more, "job.toml", overrides); },
                       ErrorCode::kInvalidInput);
}

TEST(KeyScopes, AKeyWithoutEffectIsRefused) {
  EXPECT_THAT(parse_error("", {"model.classes=10"}),
              AllOf(StartsWith("--set model.classes=10: model.classes is for BERTs, ResNets, "),
                    HasSubstr("model.name = \"gpt\"")));
  EXPECT_THAT(parse_error("", {"model.label_smoothing=0.1"}), HasSubstr("model.label_smoothing is for"));
  EXPECT_THAT(parse_error("", {"checkpoint.partner_folder=/dev/shm/x"}),
              HasSubstr("checkpoint.partner_folder is for checkpoint.partner = true"));
  for (const char* image_key :
       {"image_size = 32", "crop = \"center\"", "flip = false", "mean = [0.5, 0.5, 0.5]", "cache = 1024",
        "on_bad_image = \"skip\"", "max_pixels = 100", "padding = 2"}) {
    EXPECT_THAT(parse_error(image_key), AllOf(StartsWith("job.toml:5:1: data."), HasSubstr("is for ResNets")))
        << image_key;
  }
  EXPECT_NO_THROW(parse("workers = 2"));
  for (const char* gpt_key : {"model.size=124m", "model.layers=2", "model.hidden=8", "model.heads=2",
                              "model.vocab=9", "model.seq_len=8", "model.dropout=0.1", "model.tied=false"}) {
    EXPECT_THAT(image_error("", {gpt_key}),
                AllOf(HasSubstr("is for GPTs"), HasSubstr("model.name = \"resnet20\"")))
        << gpt_key;
  }
  EXPECT_THAT(image_error("padding = 2\n"),
              AllOf(StartsWith("job.toml:6:1: data.padding is for crop = \"padded\""),
                    HasSubstr("has no effect with data.crop = \"resized\"")));
  EXPECT_THAT(image_error("crop = \"padded\"\ncrop_area = [0.5, 1.0]\n"), HasSubstr("data.crop_area is for"));
}

TEST(KeyScopes, OptimizersHaveTheirOwnKeys) {
  EXPECT_THAT(
      parse_error("", {"optimizer.name=lion", "optimizer.epsilon=1e-6"}),
      StartsWith("--set optimizer.epsilon=1e-6: optimizer.epsilon is for optimizer.name = \"adamw\" or "
                 "\"muon\" and has no effect with optimizer.name = \"lion\": remove it"));
  struct Case {
    const char* name;
    std::vector<const char*> refused, taken;
  };
  const std::vector<Case> cases{
      {"adamw",
       {"momentum=0.5", "nesterov=true", "adjust_lr=match_rms_adamw"},
       {"betas=[0.5,0.6]", "epsilon=1e-6"}},
      {"sgd",
       {"betas=[0.5,0.6]", "epsilon=1e-6", "adjust_lr=match_rms_adamw"},
       {"momentum=0.5", "nesterov=true"}},
      {"lion",
       {"momentum=0.5", "nesterov=true", "epsilon=1e-6", "adjust_lr=match_rms_adamw"},
       {"betas=[0.5,0.6]"}},
      {"muon",
       {},
       {"betas=[0.5,0.6]", "epsilon=1e-6", "momentum=0.5", "nesterov=false", "adjust_lr=match_rms_adamw"}}};
  for (const Case& c : cases) {
    const std::string name = std::string("optimizer.name=") + c.name;
    for (const char* key : c.refused) {
      EXPECT_THAT(parse_error("", {name, std::string("optimizer.") + key}), HasSubstr("has no effect"))
          << name << key;
    }
    for (const char* key : c.taken)
      EXPECT_NO_THROW(parse("", {name, std::string("optimizer.") + key})) << name << key;
  }
  EXPECT_THAT(parse_error("", {"optimizer.decay_steps=5"}), HasSubstr("is for optimizer.schedule = \"wsd\""));
  EXPECT_NO_THROW(parse("", {"optimizer.decay_steps=5", "optimizer.schedule=wsd"}));
}

// A default is accepted: earlier builds wrote defaults to files, and an override may restore one.
TEST(KeyScopes, ADefaultIsNotRefused) {
  EXPECT_NO_THROW(
      parse_config(std::string(kImageJob) + "crop = \"padded\"\ncrop_area = [0.08, 1.0]\n", "job.toml"));
  const std::string padded = std::string(kImageJob) + "crop = \"padded\"\npadding = 2\n";
  EXPECT_THAT(
      error_message([&] { parse_config(padded, "job.toml", std::vector<std::string>{"data.crop=center"}); }),
      AllOf(StartsWith("job.toml:7:1: data.padding"), HasSubstr("--set data.padding=4")));
  EXPECT_NO_THROW(
      parse_config(padded, "job.toml", std::vector<std::string>{"data.crop=center", "data.padding=4"}));
  EXPECT_NO_THROW(parse("", {"model.classes=0"}));
}

// `data.kind = "synthetic"` measures the speed of an otherwise unchanged job.
TEST(KeyScopes, SyntheticPicturesLeaveTheKeysOfPicturesAlone) {
  EXPECT_NO_THROW(parse_config(std::string(kImageJob) + "crop = \"padded\"\npadding = 2\ncache = 1024\n",
                               "job.toml", std::vector<std::string>{"data.kind=synthetic"}));
}

TEST(KeyScopes, ResolvedTextHasOnlyKeysWithEffect) {
  const std::string text = to_toml(parse_config(kImageJob, "job.toml"));
  EXPECT_THAT(text, AllOf(HasSubstr("classes = "), HasSubstr("crop_area = "), HasSubstr("betas = ")));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("momentum = ")));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("layers = ")));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("padding = ")));
  EXPECT_EQ(to_toml(parse_config(text, "config.toml")), text);
  EXPECT_THAT(to_toml(parse("")), ::testing::Not(HasSubstr("image_size")));
}

// Earlier builds wrote all keys to their checkpoints.
TEST(KeyScopes, WhatARunWroteMayHoldKeysWithoutEffect) {
  const std::string earlier =
      "[model]\nname = \"resnet20\"\nlayers = 0\ndropout = 0.0\n[data]\nkind = \"images\"\ntrain = \"x\"\n"
      "padding = 2\n";
  EXPECT_THAT(error_message([&] { parse_config(earlier, "job.toml"); }), HasSubstr("has no effect"));
  EXPECT_EQ(parse_written_config(earlier, "manifest").model.name, "resnet20");
}

}  // namespace
}  // namespace trireme
