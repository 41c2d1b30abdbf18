// Scores with known values; tests/parity/detection_parity.py compares random sets with pycocotools.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "runtime/data/detection/average_precision.h"
#include "runtime/data/detection/non_maximum_suppression.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;
using testing::message_of;

LabelledBox object(const ImageBox& box, std::int32_t label, bool crowd = false) {
  return {.box = box, .label = label, .is_crowd = crowd, .area = box.width * box.height};
}

TEST(AveragePrecision, CountsFoundMissedAndWrongDetections) {
  AveragePrecision all(3);
  const ImageBox small{0, 0, 20, 20}, medium{100, 100, 50, 50}, nowhere{400, 400, 10, 10};
  all.add(std::vector{object(small, 0), object(medium, 0)},
          std::vector<Detection>{{nowhere, 0, 0.9}, {small, 0, 0.8}, {nowhere, 2, 0.5}});
  const DetectionScores scores = all.scores();
  // Precision is 1/2 up to the recall 1/2: 51 of 101 recalls.
  EXPECT_NEAR(scores.ap, 0.5 * 51 / 101, 1e-12);
  EXPECT_NEAR(scores.ap50, 0.5 * 51 / 101, 1e-12);
  EXPECT_NEAR(scores.ap_small, 0.5, 1e-12);
  EXPECT_EQ(scores.ap_medium, 0);
  EXPECT_EQ(scores.ap_large, -1);
  EXPECT_EQ(scores.ar1, 0);
  EXPECT_EQ(scores.ar10, 0.5);
  EXPECT_EQ(scores.class_ap[1], -1);
  EXPECT_EQ(scores.class_ap[2], -1);
}

TEST(AveragePrecision, CrowdsAndOtherSizesDoNotCount) {
  AveragePrecision all(1);
  const ImageBox crowd{0, 0, 100, 100}, inside{10, 10, 20, 20}, alone{200, 200, 40, 40};
  all.add(std::vector{object(crowd, 0, true), object(alone, 0)},
          std::vector<Detection>{{inside, 0, 0.9}, {inside, 0, 0.8}, {alone, 0, 0.7}});
  EXPECT_NEAR(all.scores().ap, 1, 1e-12);
  EXPECT_EQ(all.scores().ap_small, -1);
}

TEST(AveragePrecision, RejectsWhatItCannotScore) {
  AveragePrecision all(2);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(message_of([&] {
                all.add({}, std::vector<Detection>{{{0, 0, 1, 1}, 2, 0.5}});
              }),
              HasSubstr("the label 2, the classes are 0 to 1"));
  EXPECT_THAT(message_of([&] {
                all.add({}, std::vector<Detection>{{{0, 0, 1, 1}, 1, nan}});
              }),
              HasSubstr("NaN"));
  EXPECT_THAT(message_of([&] {
                all.add({}, std::vector<Detection>{{{0, nan, 1, 1}, 1, 0.5}});
              }),
              HasSubstr("not finite"));
  EXPECT_THAT(message_of([] { AveragePrecision(0); }), HasSubstr("positive"));
}

TEST(NonMaximumSuppression, KeepsTheBestOfEachClass) {
  const ImageBox box{0, 0, 10, 10}, near{1, 0, 10, 10}, far{8, 0, 10, 10};
  const std::vector<Detection> found = {{near, 0, 0.5}, {box, 0, 0.9},
                                        {near, 1, 0.5}, {far, 0, 0.5},
                                        {box, 1, 0.5},  {box, 0, std::numeric_limits<double>::quiet_NaN()},
                                        {box, 2, 0.01}};
  const auto kept = suppress_non_maxima(found, {.min_score = 0.05, .max_overlap = 0.5});
  ASSERT_EQ(kept.size(), 3u);
  EXPECT_EQ(kept[0].score, 0.9);
  EXPECT_EQ(kept[1].label, 1);  // the first of equal scores
  EXPECT_EQ(kept[1].box.x, near.x);
  EXPECT_EQ(kept[2].box.x, far.x);
  EXPECT_EQ(suppress_non_maxima(found, {.max_detections = 1}).size(), 1u);
}

}  // namespace
}  // namespace trireme
