// Whole runs on pictures through the built program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/launcher/cli_fixture.h"
#include "tests/support/picture_files.h"

namespace trireme {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

class ImageCli : public Cli {
 protected:
  void SetUp() override {
    for (int i = 0; i < 24; ++i) {
      const std::string name = std::string(i % 2 == 0 ? "dark/" : "light/") + std::to_string(i);
      const auto pixels = testing::gradient(10 + i, 9, static_cast<std::uint8_t>(i % 2 == 0 ? i : 255 - i));
      const std::string jpeg = testing::encode_jpeg({.width = 10 + i, .height = 9}, pixels);
      testing::write_file(scratch_ / "train" / (name + ".jpg"), jpeg);
      if (i < 6) testing::write_file(scratch_ / "test" / (name + ".jpg"), jpeg);
    }
    testing::write_file(
        scratch_ / "job.toml",
        "[model]\nname = \"resnet20\"\nclasses = 2\n"
        "[data]\nkind = \"images\"\ntrain = \"train\"\neval = \"test\"\nimage_size = 8\nworkers = 2\n"
        "[train]\nsteps = 3\nglobal_batch = 8\nmicro_batch = 4\n"
        "[optimizer]\nname = \"sgd\"\nlr = 0.05\n[parallel]\nthreads = 1\n");
  }
  std::vector<std::string> train(const std::string& out, std::vector<std::string> overrides = {}) {
    std::vector<std::string> command = {"train", "job.toml", "--out", out};
    for (std::string& text : overrides) command.insert(command.end(), {"--set", std::move(text)});
    return command;
  }
  json summary(const std::string& out) {
    return json::parse(testing::read_file(scratch_ / out / "summary.json"));
  }
};

TEST_F(ImageCli, TrainsEvaluatesAndSaysTheSameLater) {
  const ProgramResult trained = run(train("run"));
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_THAT(trained.out, HasSubstr("samples of 8 x 8 pixels"));
  EXPECT_THAT(trained.out, HasSubstr("top-1"));
  std::istringstream lines(testing::read_file(scratch_ / "run/metrics.jsonl"));
  std::string line;
  std::getline(lines, line);
  EXPECT_TRUE(json::parse(line).contains("samples_per_s"));
  EXPECT_TRUE(json::parse(line).contains("data_wait_ms"));
  const json figures = summary("run");
  EXPECT_TRUE(figures["eval_top1"].is_number());
  EXPECT_EQ(figures["eval_top5"], 1.0);  // of two classes
  EXPECT_EQ(figures["left_out_samples"], 0);

  const ProgramResult evaluated = run({"eval", "run", "--json"});
  ASSERT_EQ(evaluated.exit_code, 0) << evaluated.err;
  const json report = json::parse(evaluated.out);
  EXPECT_EQ(report["samples"], 6);
  EXPECT_EQ(report["loss"], figures["eval_loss"]);
  EXPECT_EQ(report["top1"], figures["eval_top1"]);
  EXPECT_THAT(run({"eval", "run", "--data", "train"}).out, HasSubstr("over 24 samples"));
  EXPECT_THAT(refusal({"eval", "run", "--data", "nowhere"}), HasSubstr("nowhere"));
}

TEST_F(ImageCli, TheStateDoesNotDependOnHowPicturesAreRead) {
  for (const char* mix : {"data.mixup=0", "data.mosaic=0.5"}) {
    const auto hash = [&](const std::string& out, std::vector<std::string> overrides) {
      overrides.emplace_back(mix);
      const ProgramResult result = run(train(out + mix, std::move(overrides)));
      EXPECT_EQ(result.exit_code, 0) << result.err;
      return summary(out + mix)["state_hash"];
    };
    const auto expected = hash("one", {"data.workers=0"});
    EXPECT_EQ(hash("two", {"data.workers=3"}), expected);
    EXPECT_EQ(hash("three", {"data.cache=\"1 MiB\"", "data.workers=auto"}), expected);
    EXPECT_NE(hash("four", {"train.seed=2"}), expected);
  }
}

TEST_F(ImageCli, ABadPictureEndsTheJobOrIsCounted) {
  testing::write_file(scratch_ / "train/dark/bad.jpg", "no picture");
  const ProgramResult failed = run(train("strict"));
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_THAT(failed.err, AllOf(HasSubstr("dark/bad.jpg"), HasSubstr("data.on_bad_image")));
  const ProgramResult skipped = run(train("lenient", {"data.on_bad_image=skip", "train.steps=4"}));
  ASSERT_EQ(skipped.exit_code, 0) << skipped.err;
  EXPECT_THAT(skipped.err, HasSubstr("left out: picture train/dark/bad.jpg"));
  EXPECT_EQ(summary("lenient")["left_out_samples"], 1);
}

// Neither the loss nor the share of right answers knows of it.
TEST_F(ImageCli, ABadPictureDoesNotCountInAnEvaluation) {
  ASSERT_EQ(run(train("run", {"data.on_bad_image=skip", "train.steps=4"})).exit_code, 0);
  const auto evaluate = [&] {
    const ProgramResult result = run({"eval", "run", "--json"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return nlohmann::json::parse(result.out);
  };
  const auto whole = evaluate();
  for (const char* name : {"test/dark/a.jpg", "test/dark/z.jpg"})
    testing::write_file(scratch_ / name, "none");
  const auto lacking = evaluate();
  EXPECT_EQ(lacking["samples"], whole["samples"]);
  EXPECT_EQ(lacking["left_out_samples"], 2);
  EXPECT_EQ(lacking["top1"], whole["top1"]);
  EXPECT_NEAR(lacking["loss"].get<double>(), whole["loss"].get<double>(), 1e-5);
}

TEST_F(ImageCli, RefusesBeforeStepOne) {
  EXPECT_THAT(refusal(train("x", {"data.kind=image"})), HasSubstr("\"tokens\", \"images\", \"synthetic\""));
  EXPECT_THAT(refusal(train("x", {"data.kind=tokens"})), HasSubstr("set it to \"images\""));
  EXPECT_THAT(refusal(train("x", {"data.imge_size=8"})), HasSubstr("did you mean data.image_size?"));
  EXPECT_THAT(refusal(train("x", {"data.workers=many"})), HasSubstr("\"auto\" or a number from 0 to 256"));
  EXPECT_THAT(refusal(train("x", {"data.std=[1, 0, 1]"})), HasSubstr("data.std"));
  EXPECT_THAT(refusal(train("x", {"data.crop_area=[0.5, 0.25]"})), HasSubstr("the least comes first"));
  EXPECT_THAT(refusal(train("x", {"model.classes=10"})),
              AllOf(HasSubstr("data.train: "), HasSubstr("set model.classes = 2")));
  std::filesystem::rename(scratch_ / "test/dark", scratch_ / "test/drak");
  EXPECT_THAT(refusal(train("x")), AllOf(HasSubstr("data.eval: "), HasSubstr("'drak' only in evaluation")));
  std::filesystem::create_directories(scratch_ / "train/empty");
  EXPECT_THAT(refusal(train("x")), AllOf(HasSubstr("train/empty"), HasSubstr("no pictures")));
}

TEST_F(ImageCli, SyntheticImagesNeedNoFiles) {
  const ProgramResult result = run(train("s", {"data.kind=synthetic", "data.train=", "data.eval=yes"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(summary("s")["eval_top1"].is_number());
  EXPECT_THAT(run({"plan", "job.toml", "--set", "data.mosaic=0.5"}).out,
              HasSubstr("2 classes, images of 8 x 8"));
}

}  // namespace
}  // namespace trireme
