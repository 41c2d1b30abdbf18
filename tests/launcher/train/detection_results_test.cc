#include "launcher/train/detection_results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "launcher/render/box_drawing.h"
#include "models/yolox.h"
#include "parallel/comm/local.h"
#include "tests/support/picture_files.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

constexpr int kPixels = 64;
constexpr std::int64_t kNumbers = 7;  // of a row of predictions with two classes

/// Three pictures of 128 x 64 pixels with an object of class 1 at 32, 16 with sides of 40 and 24.
std::shared_ptr<const DetectionSet> same_objects(const testing::TemporaryFolder& folder) {
  std::string images, annotations;
  for (int i = 0; i < 3; ++i) {
    testing::write_file(folder / fmt::format("p/{}.png", i),
                        testing::encode_png({.width = 128, .height = 64}, testing::gradient(128, 64)));
    const char* comma = i > 0 ? "," : "";
    images +=
        fmt::format(R"({}{{"id": {}, "file_name": "{}.png", "width": 128, "height": 64}})", comma, 40 + i, i);
    annotations += fmt::format(
        R"({}{{"id": {}, "image_id": {}, "category_id": 9, "bbox": [32, 16, 40, 24], "iscrowd": 0}})", comma,
        i + 1, 40 + i);
  }
  testing::write_file(
      folder / "set.json",
      fmt::format(
          R"({{"images": [{}], "annotations": [{}], "categories": [{{"id": 5, "name": "a"}}, {{"id": 9, "name": "b"}}]}})",
          images, annotations));
  return std::make_shared<DetectionSet>(
      DetectionSet::Options{.pictures = folder / "p", .annotations = folder / "set.json"});
}

/// Predictions of one picture: the object in the letterbox, at half size, from the anchor of stride 8 at
/// column 3, row 2, and nothing else.
std::vector<float> exact_rows() {
  const std::int64_t anchors = yolox_anchors(kPixels, kPixels);
  std::vector<float> rows(static_cast<std::size_t>(anchors * kNumbers), -20.0f);
  float* row = rows.data() + (2 * (kPixels / 8) + 3) * kNumbers;
  row[0] = 26.0f / 8 - 3;  // center x in pixels of the letterbox
  row[1] = 14.0f / 8 - 2;
  row[2] = std::log(20.0f / 8);
  row[3] = std::log(12.0f / 8);
  row[4] = 5;
  row[6] = 4;
  return rows;
}

TEST(DetectionResults, MapsBoxesToThePicture) {
  const auto found = picture_detections(exact_rows(), 2, kPixels, {.width = 128, .height = 64}, 0.01);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].label, 1);
  EXPECT_NEAR(found[0].score, 1 / (1 + std::exp(-5.0)) / (1 + std::exp(-4.0)), 1e-5);
  EXPECT_NEAR(found[0].box.x, 32, 1e-3);
  EXPECT_NEAR(found[0].box.y, 16, 1e-3);
  EXPECT_NEAR(found[0].box.width, 40, 1e-3);
  EXPECT_NEAR(found[0].box.height, 24, 1e-3);
  // A box beyond the picture ends at its edge.
  const auto cut = picture_detections(exact_rows(), 2, kPixels, {.width = 64, .height = 20}, 0.01);
  ASSERT_EQ(cut.size(), 1u);
  EXPECT_LE(cut[0].box.y + cut[0].box.height, 20);
}

// Ranks have different numbers of pictures, and every rank has the scores of all.
TEST(DetectionResults, GatherAllRanks) {
  const testing::TemporaryFolder folder;
  const auto set = same_objects(folder);
  run_local_ranks(3, [&](const std::shared_ptr<Communicator>& comm) {
    const Context ctx = Context::create({DeviceType::kCpu}, 1);
    DetectionResults results(set, 3);
    const auto add = [&](std::int64_t first, std::int64_t count) {
      std::vector<float> rows;
      for (std::int64_t i = 0; i < count; ++i) {
        const std::vector<float> one = exact_rows();
        rows.insert(rows.end(), one.begin(), one.end());
      }
      const std::vector<float> pixels(static_cast<std::size_t>(count) * kPixels * kPixels * 3);
      Batch batch;
      batch.inputs = ctx.from_host(pixels.data(), {count, kPixels, kPixels, 3}, DType::kFloat32);
      results.add(
          ctx,
          ctx.from_host(rows.data(), {count, yolox_anchors(kPixels, kPixels), kNumbers}, DType::kFloat32),
          batch, first);
    };
    if (comm->rank() == 0) add(2, 1);
    if (comm->rank() == 2) add(0, 2);
    results.gather(*comm);
    EXPECT_DOUBLE_EQ(results.scores().ap, 1);
    const nlohmann::ordered_json json = results.to_json();
    ASSERT_EQ(json.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(json[i]["image_id"], 40 + i);
      EXPECT_EQ(json[i]["category_id"], 9);
    }
  });
  run_local_ranks(2, [&](const std::shared_ptr<Communicator>& comm) {
    DetectionResults none(set, 3);
    none.gather(*comm);
    EXPECT_DOUBLE_EQ(none.scores().ap, 0);
  });
}

TEST(DrawBox, DrawsEdgesAndTextWithinThePicture) {
  Image image{.size = {.width = 60, .height = 40}, .pixels = std::vector<std::uint8_t>(60 * 40 * 3, 7)};
  const auto is_drawn = [&](int x, int y) {
    return image.pixels[static_cast<std::size_t>((y * 60 + x) * 3)] != 7;
  };
  draw_box(image, {10, 20, 30, 15}, "a1", 0);
  for (int x = 10; x < 40; ++x) EXPECT_TRUE(is_drawn(x, 20) && is_drawn(x, 34)) << x;
  for (int y = 20; y < 35; ++y) EXPECT_TRUE(is_drawn(10, y) && is_drawn(39, y)) << y;
  EXPECT_FALSE(is_drawn(20, 27));
  EXPECT_FALSE(is_drawn(40, 25));
  EXPECT_TRUE(is_drawn(11, 14)) << "the label's bar stands above the box";
  EXPECT_EQ(image.pixels[static_cast<std::size_t>((14 * 60 + 12) * 3 + 1)], 255) << "the top of an A";
  draw_box(image, {-50, -50, 500, 500}, "wide text that is cut", 3);  // must not write outside
  EXPECT_EQ(image.pixels.size(), 60u * 40 * 3);
}

}  // namespace
}  // namespace trireme
