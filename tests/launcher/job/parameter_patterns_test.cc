// Keys that select parameters by patterns: parsed, written, passed to the engine, and refused with the
// nearest name.
#include "launcher/job/parameter_patterns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/job/build.h"
#include "launcher/keys/job_file.h"
#include "tests/launcher/config/error_matchers.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr const char* kModel =
    "[model]\nlayers = 2\nhidden = 16\nheads = 2\nvocab = 64\nseq_len = 8\n"
    "[data]\nkind = \"synthetic\"\n";

JobConfig job(const std::string& more, const std::vector<std::string>& overrides = {}) {
  return resolve(parse_config(kModel + more, "job.toml", overrides));
}

TEST(ParameterPatterns, KeysReachTheEngine) {
  const JobConfig config =
      job("[train]\nfreeze = [\"embedding*\", \"blocks.0.*\"]\n"
          "[optimizer]\nlr_scale = { \"head*\" = 10.0, \"*bias\" = 2 }\ndecay_scale = { \"embedding*\" = 0.0 "
          "}\n");
  const ParameterRules rules = engine_options(config, *build_blocks(config.model)).rules;
  EXPECT_THAT(rules.frozen, ElementsAre("embedding*", "blocks.0.*"));
  EXPECT_THAT(rules.lr_scale, ElementsAre(Pair("*bias", 2.0), Pair("head*", 10.0)));
  EXPECT_THAT(rules.decay_scale, ElementsAre(Pair("embedding*", 0.0)));
  const std::string text = to_toml(config);
  EXPECT_THAT(text, HasSubstr("freeze = [\"embedding*\", \"blocks.0.*\"]\n"));
  EXPECT_THAT(text, HasSubstr("lr_scale = { \"*bias\" = 2.0, \"head*\" = 10.0 }\n"));
  EXPECT_EQ(to_toml(parse_written_config(text, "config.toml")), text);
}

TEST(ParameterPatterns, OverridesSetOneEntry) {
  const JobConfig config = job("[optimizer]\nlr_scale = { \"head*\" = 10.0 }\n",
                               {"optimizer.lr_scale.blocks.0.*=0.5", "train.freeze=[\"embedding*\"]"});
  EXPECT_THAT(config.optimizer.lr_scale, ElementsAre(Pair("blocks.0.*", 0.5), Pair("head*", 10.0)));
  EXPECT_THAT(config.train.freeze, ElementsAre("embedding*"));
}

TEST(ParameterPatterns, WhatMatchesNothingNamesTheNearest) {
  const auto message = [](const std::string& more) { return error_message([&] { job(more); }); };
  EXPECT_THAT(message("[train]\nfreeze = [\"embeding.tokens\"]\n"),
              HasSubstr("train.freeze: \"embeding.tokens\" matches none of the model's"));
  EXPECT_THAT(message("[train]\nfreeze = [\"embeding.tokens\"]\n"),
              HasSubstr("the nearest is 'embedding.tokens'"));
  EXPECT_THAT(message("[train]\nfreeze = [\"blocks.0.atention.*\"]\n"), HasSubstr("'blocks.0.attention."));
  EXPECT_THAT(message("[optimizer]\nlr_scale = { \"*qkvv*\" = 2.0 }\n"),
              HasSubstr("optimizer.lr_scale: \"*qkvv*\" matches none"));
  EXPECT_THAT(message("[optimizer]\nlr_scale = { \"*qkvv*\" = 2.0 }\n"), HasSubstr("qkv"));
  EXPECT_THAT(message("[optimizer]\ndecay_scale = { \"haed*\" = 2.0 }\n"), HasSubstr("'head."));
  EXPECT_THAT(message("[train]\nfreeze = [\"*\"]\n"),
              HasSubstr("train.freeze = [\"*\"] leaves none of the model's"));
}

TEST(ParameterPatterns, MuonNeedsAMatrixToTrain) {
  EXPECT_NO_THROW(job("[optimizer]\nname = \"muon\"\n"));
  EXPECT_THAT(error_message([] { job("[train]\nfreeze = [\"blocks.*\"]\n[optimizer]\nname = \"muon\"\n"); }),
              HasSubstr("optimizer.name = \"muon\" updates weights of two dimensions between the first block "
                        "and the last, and gpt has none to train"));
  EXPECT_THAT(error_message([] {
                resolve(
                    parse_config("[model]\nname = \"resnet20\"\n[data]\nkind = \"synthetic\"\n"
                                 "[optimizer]\nname = \"muon\"\n",
                                 "job.toml"));
              }),
              HasSubstr("resnet20 has none to train: take \"adamw\" or \"sgd\""));
}

TEST(ParameterPatterns, ValuesOfTheWrongKindAreRefused) {
  const auto message = [](const std::string& more, const std::vector<std::string>& overrides = {}) {
    return error_message([&] { job(more, overrides); });
  };
  EXPECT_THAT(message("[train]\nfreeze = \"embedding*\"\n"),
              HasSubstr("train.freeze needs a list of strings, such as [\"text\"], found the string"));
  EXPECT_THAT(message("[train]\nfreeze = [1]\n"), HasSubstr("train.freeze needs a list of strings"));
  EXPECT_THAT(message("[optimizer]\nlr_scale = { \"head*\" = \"x\" }\n"),
              HasSubstr("optimizer.lr_scale needs a table of numbers"));
  EXPECT_THAT(message("[optimizer]\nlr_scale = { \"head*\" = 0.0 }\n"),
              HasSubstr("optimizer.lr_scale = { \"head*\" = 0.0 } is out of range; allowed: above 0"));
  EXPECT_THAT(message("[optimizer]\ndecay_scale = { \"head*\" = -1.0 }\n"), HasSubstr("allowed: at least 0"));
  EXPECT_THAT(message("[optimizer]\nlr_scale = { \"head*\" = 1e-60 }\n"),
              HasSubstr("is out of range in fp32"));
  EXPECT_THAT(message("", {"optimizer.lr_scale.head*=fast"}),
              HasSubstr("optimizer.lr_scale.head* needs a number, found the string \"fast\""));
}

}  // namespace
}  // namespace trireme
