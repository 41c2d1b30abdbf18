// trireme eval of a classifier: figures by class, predictions, the confusion matrix.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/launcher/commands/cli_fixture.h"
#include "tests/support/picture_files.h"

namespace trireme {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class EvalClassesCli : public Cli {
 protected:
  void SetUp() override {
    for (int i = 0; i < 12; ++i) {
      const std::string name = std::string(i % 3 == 0   ? "dark/"
                                           : i % 3 == 1 ? "grey/"
                                                        : "light/") +
                               std::to_string(i);
      const auto blue = static_cast<std::uint8_t>(100 * (i % 3) + i);
      for (const char* split : {"train", "test"}) {
        const int width = 9 + i + (split[0] == 't' && split[1] == 'e');
        testing::write_file(
            scratch_ / split / (name + ".jpg"),
            testing::encode_jpeg({.width = width, .height = 9}, testing::gradient(width, 9, blue)));
      }
    }
    testing::write_file(
        scratch_ / "job.toml",
        "[model]\nname = \"resnet20\"\n[data]\nkind = \"images\"\ntrain = \"train\"\neval = \"test\"\n"
        "image_size = 8\n[train]\nsteps = 3\nglobal_batch = 6\nmicro_batch = 3\n"
        "[optimizer]\nlr = 0.01\nschedule = \"constant\"\n[parallel]\nthreads = 1\n");
    ASSERT_EQ(run({"train", "job.toml", "--out", "run"}).exit_code, 0);
  }
};

TEST_F(EvalClassesCli, FiguresPredictionsAndPictureAgree) {
  const ProgramResult result =
      run({"eval", "run", "--json", "--predictions", "predictions.jsonl", "--confusion", "confusion.svg"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json report = json::parse(result.out);
  ASSERT_EQ(report.at("classes").size(), 3u);
  EXPECT_EQ(report["classes"][0]["name"], "dark");
  std::int64_t correct = 0;
  for (const json& one : report["classes"]) {
    EXPECT_EQ(one["samples"], 4);
    correct += one["correct"].get<std::int64_t>();
  }
  EXPECT_DOUBLE_EQ(report["top1"].get<double>(), static_cast<double>(correct) / 12);
  std::istringstream lines(testing::read_file(scratch_ / "predictions.jsonl"));
  std::int64_t sample = 0, right = 0;
  for (std::string line; std::getline(lines, line); ++sample) {
    const json one = json::parse(line);
    EXPECT_EQ(one["sample"], sample);
    EXPECT_THAT(one["picture"].get<std::string>(),
                ::testing::StartsWith("test/" + one["label"].get<std::string>() + "/"));
    EXPECT_GT(one["probability"].get<double>(), 1.0 / 3 - 1e-6);
    right += one["label"] == one["predicted"];
  }
  EXPECT_EQ(sample, 12);
  EXPECT_EQ(right, correct);
  EXPECT_THAT(testing::read_file(scratch_ / "confusion.svg"), HasSubstr("</svg>"));

  EXPECT_THAT(run({"eval", "run"}).out, HasSubstr("most often taken for"));
  EXPECT_THAT(refusal({"eval", "run", "--confusion", "confusion.svg"}), HasSubstr("confusion.svg"));
  EXPECT_EQ(run({"eval", "run", "--confusion", "confusion.svg", "--force"}).exit_code, 0);
}

TEST_F(EvalClassesCli, ModelsOfTextHaveNoClasses) {
  testing::write_file(
      scratch_ / "gpt.toml",
      "[model]\nlayers = 1\nhidden = 16\nheads = 2\nvocab = 32\nseq_len = 8\n[data]\nkind = "
      "\"synthetic\"\n[train]\nsteps = 1\nglobal_batch = 4\nmicro_batch = 4\n[parallel]\nthreads = 1\n");
  ASSERT_EQ(run({"train", "gpt.toml", "--out", "gpt"}).exit_code, 0);
  EXPECT_THAT(refusal({"eval", "gpt", "--predictions", "x"}),
              HasSubstr("--predictions: a gpt does not classify"));
}

}  // namespace
}  // namespace trireme
