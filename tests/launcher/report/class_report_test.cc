#include "launcher/report/class_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "launcher/train/class_predictions.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

ClassReport cats_and_dogs() {
  const std::vector<ClassPrediction> predictions = {{0, 0, 0, 0.9f}, {1, 0, 1, 0.6f}, {2, 1, 1, 0.8f},
                                                    {3, 1, 1, 0.7f}, {4, 0, 2, 0.5f}, {5, 0, 1, 0.5f}};
  return {ConfusionMatrix(predictions, 3), {"cat", "d<g", "owl"}};
}

TEST(ConfusionMatrix, Counts) {
  const ConfusionMatrix matrix = cats_and_dogs().matrix;
  EXPECT_EQ(matrix.counts, (std::vector<std::int64_t>{1, 2, 1, 0, 2, 0, 0, 0, 0}));
  EXPECT_EQ(matrix.num_targets(0), 4);
  EXPECT_EQ(matrix.num_predicted(1), 4);
  EXPECT_EQ(matrix.most_confused(0), 1);
  EXPECT_EQ(matrix.most_confused(1), -1);
  const std::vector<ClassPrediction> beyond = {{0, 3, 0, 1.0f}};
  EXPECT_THROW(ConfusionMatrix(beyond, 3), Error);
}

TEST(PredictedClass, IsTheLargestLogit) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> logits = {1.0f, 3.0f, kNan, 3.0f};
  const auto [label, probability] = predicted_class(logits);
  EXPECT_EQ(label, 1) << "the smaller number on ties";
  EXPECT_FLOAT_EQ(probability, static_cast<float>(1 / (2 + std::exp(-2.0))));
  const std::vector<float> none = {kNan, kNan};
  EXPECT_EQ(predicted_class(none), (std::pair<std::int32_t, float>{0, 0.0f}));
}

TEST(ClassReport, Json) {
  EXPECT_EQ(to_json(cats_and_dogs()).dump(),
            R"({"classes":[{"name":"cat","samples":4,"correct":1,"predicted":1},)"
            R"({"name":"d<g","samples":2,"correct":2,"predicted":4},)"
            R"({"name":"owl","samples":0,"correct":0,"predicted":1}],"confused":[[0,1,2],[0,2,1]]})");
}

TEST(ClassReport, Table) {
  const std::string text = to_text(cats_and_dogs());
  EXPECT_THAT(text, ::testing::ContainsRegex("cat +d<g +4 +25\\.0 % +100\\.0 %"));
  EXPECT_THAT(text, ::testing::ContainsRegex("owl +- +0 +- +0\\.0 %"));
}

TEST(ClassReport, PictureHasACellForEveryPairThatOccurs) {
  const std::string svg = to_svg(cats_and_dogs());
  EXPECT_THAT(svg, HasSubstr("<title>cat predicted as d&lt;g: 2 of 4</title>"));
  std::size_t titles = 0;
  for (std::size_t at = svg.find(" predicted as "); at != std::string::npos;
       at = svg.find(" predicted as ", at + 1))
    ++titles;
  EXPECT_EQ(titles, 4u);
  EXPECT_EQ(cats_and_dogs().name(7), "7") << "classes without names have numbers";
}

// Lines of names are as far apart as cells are high: smaller letters do not overlap.
TEST(ClassReport, NamesAreReadableFor10And100Classes) {
  const std::vector<ClassPrediction> predictions{{0, 0, 1, 0.5f}};
  const std::string few = to_svg({ConfusionMatrix(predictions, 10), {}});
  EXPECT_THAT(few, HasSubstr("font-size:12.0px"));
  EXPECT_THAT(few, HasSubstr("width=\"40.0\" height=\"40.0\""));
  const std::string many = to_svg({ConfusionMatrix(predictions, 100), {}});
  EXPECT_THAT(many, HasSubstr("font-size:8.0px"));
  EXPECT_THAT(many, HasSubstr(">99</text>"));
  EXPECT_THAT(many, HasSubstr("width=\"9.0\" height=\"9.0\""));
}

}  // namespace
}  // namespace trireme
