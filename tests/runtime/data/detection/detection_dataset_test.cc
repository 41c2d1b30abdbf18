#include "runtime/data/detection/detection_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <span>

#include "runtime/data/detection/synthetic_detections.h"
#include "runtime/data/prefetch.h"
#include "tests/support/picture_files.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using testing::encode_png;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TemporaryFolder;
using testing::write_file;

constexpr int kNumPictures = 11, kSide = 64;

/// Pictures in black with a filled white rectangle, the only object, of exact whole pixels.
std::shared_ptr<DetectionSet> rectangles(const TemporaryFolder& folder) {
  std::string images, annotations;
  for (int i = 0; i < kNumPictures; ++i) {
    const int width = 90 + 13 * i, height = 200 - 9 * i;
    const int x = 10 + 3 * i, y = 20 + 5 * i, w = 30 + 2 * i, h = 70 - 3 * i;
    std::vector<std::uint8_t> pixels(static_cast<std::size_t>(width * height * 3), 0);
    for (int row = y; row < y + h; ++row) {
      for (int column = x * 3; column < (x + w) * 3; ++column)
        pixels[static_cast<std::size_t>(row * width * 3 + column)] = 255;
    }
    write_file(folder / fmt::format("p/{}.png", i), encode_png({.width = width, .height = height}, pixels));
    const char* comma = i > 0 ? "," : "";
    images += fmt::format(R"({}{{"id": {}, "file_name": "{}.png", "width": {}, "height": {}}})", comma, i, i,
                          width, height);
    annotations += fmt::format(
        R"({}{{"id": {}, "image_id": {}, "category_id": {}, "bbox": [{}, {}, {}, {}], "iscrowd": 0}},
            {{"id": {}, "image_id": {}, "category_id": 1, "bbox": [0, 0, 50, 50], "iscrowd": 1}})",
        comma, i + 1, i, i % 2 + 1, x, y, w, h, i + 100, i);
  }
  write_file(folder / "set.json",
             fmt::format(R"({{"images": [{}], "annotations": [{}], "categories": [{{"id": 1, "name": "a"}},
                             {{"id": 2, "name": "b"}}]}})",
                         images, annotations));
  return std::make_shared<DetectionSet>(
      DetectionSet::Options{.pictures = folder / "p", .annotations = folder / "set.json"});
}

DetectionDataset::Options augmented(std::shared_ptr<const DetectionSet> set) {
  DetectionDataset::Options options;
  options.set = std::move(set);
  options.sides = {kSide};
  options.layout = {.mosaic_probability = 0.7,
                    .mixup_probability = 0.5,
                    .scale = {0.5, 1.5},
                    .shift = 0.1,
                    .flip_probability = 0.5};
  options.jitter = {.hue = 0.1, .saturation = 0.2, .value = 0.2};
  options.seed = 5;
  return options;
}

struct Row {
  int label;
  ImageBox box;
};
std::vector<Row> rows_of(const HostBatch& batch, std::int64_t sample) {
  const auto num_boxes = static_cast<std::size_t>(batch.target_shape[1]);
  std::vector<Row> rows;
  for (std::size_t i = 0; i < num_boxes; ++i) {
    const float* row = batch.number_targets.data() + (static_cast<std::size_t>(sample) * num_boxes + i) * 5;
    if (row[0] < 0) continue;
    rows.push_back({static_cast<int>(row[0]), {row[1] - row[3] / 2, row[2] - row[4] / 2, row[3], row[4]}});
  }
  return rows;
}

float pixel(const HostBatch& batch, std::int64_t sample, int x, int y) {
  const auto side = batch.input_shape[1];
  return reinterpret_cast<const float*>(batch.inputs.data())[((sample * side + y) * side + x) * 3];
}

HostBatch read_all(const std::shared_ptr<const Dataset>& data, std::int64_t count, std::int64_t micro_batch,
                   int num_ranks, int workers) {
  std::map<std::int64_t, HostBatch> batches;  // by first sample
  for (int rank = 0; rank < num_ranks; ++rank) {
    std::vector<BatchRequest> requests;
    for (std::int64_t m = rank; m * micro_batch < count; m += num_ranks)
      requests.push_back({.first = m * micro_batch, .count = std::min(micro_batch, count - m * micro_batch)});
    Prefetcher prefetcher(data, requests, {.depth = 3, .workers = workers});
    for (const BatchRequest& request : requests) batches[request.first] = prefetcher.next().value();
  }
  HostBatch all;
  for (const auto& [first, batch] : batches) {
    all.inputs.insert(all.inputs.end(), batch.inputs.begin(), batch.inputs.end());
    all.number_targets.insert(all.number_targets.end(), batch.number_targets.begin(),
                              batch.number_targets.end());
  }
  return all;
}

TEST(DetectionDataset, SamplesAreTheSameForAllWorkersRanksAndBatches) {
  const TemporaryFolder folder;
  const auto data = std::make_shared<DetectionDataset>(augmented(rectangles(folder)));
  const HostBatch expected = read_all(data, 30, 30, 1, 0);
  for (const auto& [micro_batch, ranks, workers] : {std::array{4, 1, 1}, {3, 2, 4}, {1, 3, 2}, {8, 4, 3}}) {
    const HostBatch found = read_all(data, 30, micro_batch, ranks, workers);
    EXPECT_EQ(found.inputs, expected.inputs) << micro_batch;
    EXPECT_EQ(found.number_targets, expected.number_targets) << micro_batch;
  }
  DetectionDataset::Options other = augmented(rectangles(folder));
  other.seed = 6;
  EXPECT_NE(DetectionDataset(other).read_train(0, 8).inputs, data->read_train(0, 8).inputs);
}

TEST(DetectionDataset, LetterboxHasThePictureAndItsBoxes) {
  const TemporaryFolder folder;
  DetectionDataset::Options options;
  options.set = rectangles(folder);
  options.sides = {kSide};
  const DetectionDataset data(options);
  const HostBatch batch = data.read_sequential(0, kNumPictures);
  EXPECT_EQ(batch.target_shape, (Shape{kNumPictures, 2, 5}));
  for (int i = 0; i < kNumPictures; ++i) {
    const ImageSize size = options.set->picture(i).size;
    const double scale = static_cast<double>(kSide) / std::max(size.width, size.height);
    const auto rows = rows_of(batch, i);
    ASSERT_EQ(rows.size(), 1u);  // without the crowd
    EXPECT_EQ(rows[0].label, i % 2);
    const ImageBox& box = options.set->picture(i).boxes[0].box;
    const double width = std::floor(size.width * scale + 1e-6),
                 height = std::floor(size.height * scale + 1e-6);
    EXPECT_NEAR(rows[0].box.x, box.x * width / size.width, 1e-4);
    EXPECT_NEAR(rows[0].box.y, box.y * height / size.height, 1e-4);
    EXPECT_NEAR(rows[0].box.width, box.width * width / size.width, 1e-4);
    EXPECT_NEAR(rows[0].box.height, box.height * height / size.height, 1e-4);
    if (width < kSide) {
      EXPECT_NEAR(pixel(batch, i, kSide - 1, 0), 114.0 / 255, 1e-6);
    }
    EXPECT_EQ(pixel(batch, i, 0, 0), 0);
  }
}

// Each white pixel of a sample without MixUp is in a box, each box is white, and no larger rectangle is.
TEST(DetectionDataset, BoxesAreWhereTheObjectsAreInAHundredSamples) {
  const TemporaryFolder folder;
  DetectionDataset::Options options = augmented(rectangles(folder));
  options.layout.mixup_probability = 0;
  options.jitter = {};
  options.keep = {.min_side = 0, .min_visible = 0};
  const DetectionDataset data(options);
  std::int64_t num_boxes = 0;
  for (std::int64_t first = 0; first < 104; first += 8) {
    const HostBatch batch = data.read_train(first, 8);
    for (std::int64_t sample = 0; sample < 8; ++sample) {
      const auto rows = rows_of(batch, sample);
      num_boxes += std::ssize(rows);
      for (int y = 0; y < kSide; ++y) {
        for (int x = 0; x < kSide; ++x) {
          double covered = 0;  // of the pixel, by boxes, which do not overlap
          for (const Row& row : rows) {
            const double w = std::min(row.box.x + row.box.width, x + 1.0) - std::max<double>(row.box.x, x);
            const double h = std::min(row.box.y + row.box.height, y + 1.0) - std::max<double>(row.box.y, y);
            if (w > 0 && h > 0) covered += w * h;
          }
          const float value = pixel(batch, sample, x, y);
          const bool is_grey = std::abs(value - 114.0f / 255) < 1e-5f;
          // A filter as wide as an output pixel blurs an edge over its neighbours.
          const bool is_deep = covered > 0.999;
          if (value > 0.75f) {
            EXPECT_GT(covered, 0.2) << first + sample << " " << x << " " << y;
          }
          if (is_deep && !is_grey) {
            EXPECT_GT(value, 0.3f) << first + sample << " " << x << " " << y;
          }
        }
      }
    }
  }
  EXPECT_GT(num_boxes, 150);
}

TEST(DetectionDataset, EndsMixingAndDrawsSides) {
  const TemporaryFolder folder;
  DetectionDataset::Options options = augmented(rectangles(folder));
  options.layout.mosaic_probability = options.layout.mixup_probability = 1;
  options.mix_until = 16;
  options.sides = {32, 48, 64};
  options.samples_per_side = 16;
  const DetectionDataset data(options);
  EXPECT_EQ(data.max_boxes(), 10);
  std::set<int> sides;
  for (std::int64_t first = 0; first < 320; first += 16) {
    const HostBatch batch = data.read_train(first, 8);
    EXPECT_EQ(batch.input_shape[1], data.train_side(first));
    sides.insert(data.train_side(first));
    EXPECT_EQ(batch.target_weights, std::vector<float>(8, first < 16 ? 0.0f : 1.0f));
    std::size_t most = 0;
    for (std::int64_t i = 0; i < 8; ++i) most = std::max(most, rows_of(batch, i).size());
    if (first < 16) {
      EXPECT_GT(most, 1u);
    } else {
      EXPECT_LE(most, 1u);
    }
  }
  EXPECT_EQ(sides.size(), 3u);
  std::int64_t first = 0;
  while (data.train_side(first) == data.train_side(first + 16)) first += 16;
  EXPECT_THAT(message_of([&] { data.read_train(first + 12, 8); }), HasSubstr("two sides"));
}

TEST(SyntheticDetections, DrawsItsObjectsWhereTheBoxesAre) {
  const SyntheticDetections data(
      {.num_samples = 16, .side = 32, .num_classes = 3, .max_boxes = 6, .seed = 3});
  const HostBatch batch = data.read_train(5, 4);
  EXPECT_EQ(batch.input_shape, (Shape{4, 32, 32, 3}));
  EXPECT_EQ(batch.target_shape, (Shape{4, 6, 5}));
  EXPECT_EQ(batch.target_weights, std::vector<float>(4, 0.0f));
  for (std::int64_t sample = 0; sample < 4; ++sample) {
    const std::vector<Row> rows = rows_of(batch, sample);
    ASSERT_GE(rows.size(), 1u);
    ASSERT_LE(rows.size(), 4u);
    for (int y = 0; y < 32; ++y) {
      for (int x = 0; x < 32; ++x) {
        const bool is_inside = std::ranges::any_of(rows, [&](const Row& row) {
          return x >= row.box.x && x < row.box.x + row.box.width && y >= row.box.y &&
                 y < row.box.y + row.box.height;
        });
        if (!is_inside) EXPECT_LE(std::abs(pixel(batch, sample, x, y)), 0.5f) << "noise";
      }
    }
    for (const Row& row : rows) {
      EXPECT_GE(row.box.x, 0);
      EXPECT_LE(row.box.x + row.box.width, 32);
    }
  }
  EXPECT_EQ(data.read_train(6, 1).number_targets, data.read_train(6, 1).number_targets);
  EXPECT_NE(data.read_train(6, 1).inputs, data.read_sequential(6, 1).inputs);
}

TEST(DetectionDataset, KeepsTheLargestBoxesAndChecksItsOptions) {
  const TemporaryFolder folder;
  const auto set = rectangles(folder);
  DetectionDataset::Options options = augmented(set);
  const auto all = rows_of(DetectionDataset(options).read_train(0, 8), 0);
  options.max_boxes = 1;
  const auto one = rows_of(DetectionDataset(options).read_train(0, 8), 0);
  ASSERT_EQ(one.size(), std::min<std::size_t>(all.size(), 1));
  for (const Row& row : all) EXPECT_LE(row.box.width * row.box.height, one[0].box.width * one[0].box.height);
  const auto error_with = [&](auto change) {
    DetectionDataset::Options changed = augmented(set);
    change(changed);
    return message_of([&] { DetectionDataset{changed}; });
  };
  EXPECT_THAT(error_with([](auto& o) { o.sides = {0}; }), HasSubstr("positive"));
  EXPECT_THAT(error_with([](auto& o) { o.sides = {32, 64}; }), HasSubstr("samples per side"));
  EXPECT_THAT(error_with([](auto& o) { o.layout.scale = {2, 1}; }), HasSubstr("no positive range"));
  EXPECT_THAT(error_with([](auto& o) { o.layout.flip_probability = 1.5; }), HasSubstr("from 0 to 1"));
  EXPECT_THAT(error_with([](auto& o) { o.set = nullptr; }), HasSubstr("no pictures"));
}

TEST(PicturePart, MapsBoxesThereAndBack) {
  for (const Mirror mirror : {Mirror::kNo, Mirror::kYes}) {
    const PicturePart part{
        .from = {10, 20, 100, 50}, .x = 5, .y = 7, .width = 50, .height = 100, .mirror = mirror};
    const ImageBox box{30, 30, 20, 10}, moved = part.to_sample(box), back = part.to_picture(moved);
    EXPECT_DOUBLE_EQ(moved.x, mirror == Mirror::kNo ? 15 : 35);
    EXPECT_DOUBLE_EQ(moved.y, 27);
    EXPECT_DOUBLE_EQ(moved.width, 10);
    EXPECT_DOUBLE_EQ(back.x, box.x);
    EXPECT_DOUBLE_EQ(back.height, box.height);
  }
}

TEST(PicturePart, DropsTinyHiddenCrowdAndEmptyBoxes) {
  const PicturePart part{.from = {0, 0, 50, 100}, .width = 25, .height = 50};
  const std::vector<LabelledBox> objects = {
      {.box = {10, 10, 20, 20}, .label = 0},
      {.box = {10, 10, 3, 20}, .label = 1},   // 1.5 pixels wide
      {.box = {46, 10, 50, 50}, .label = 2},  // 8 % visible
      {.box = {10, 10, 20, 20}, .label = 3, .is_crowd = true},
      {.box = {10, 10, 0, 20}, .label = 4},
      {.box = {-20, -20, 40, 40}, .label = 5},  // a quarter is in the picture, all of it visible
      {.box = {120, 10, 20, 20}, .label = 6}};  // outside
  std::vector<SampleBox> boxes;
  add_visible_boxes(part, {100, 100}, objects, {}, boxes);
  ASSERT_EQ(boxes.size(), 2u);
  EXPECT_EQ(boxes[0].label, 0);
  EXPECT_EQ(boxes[1].label, 5);
  EXPECT_EQ(boxes[1].box.width, 10);
}

TEST(ColorJitter, ChangesHueSaturationAndValue) {
  // A third of the circle takes red to green; the values are those of Python's colorsys.
  std::vector<float> pixels = {255, 0, 0, 200, 100, 50, 40, 40, 40};
  const std::vector<float> stored = pixels;
  change_colors(0, 0, 0, pixels);
  for (std::size_t i = 0; i < pixels.size(); ++i) EXPECT_NEAR(pixels[i], stored[i], 1e-3);
  change_colors(1.0f / 3, 0, 0, pixels);
  EXPECT_NEAR(pixels[0], 0, 1e-3);
  EXPECT_NEAR(pixels[1], 255, 1e-3);
  EXPECT_NEAR(pixels[3], 50, 1e-3);
  EXPECT_NEAR(pixels[4], 200, 1e-3);
  EXPECT_NEAR(pixels[5], 100, 1e-3);
  EXPECT_NEAR(pixels[6], 40, 1e-3);
  pixels = {200, 100, 50};
  change_colors(0, -1, 0.5f, pixels);
  for (const float value : pixels) EXPECT_EQ(value, 255);
}

}  // namespace
}  // namespace trireme
