#include "launcher/train/weights_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/checkpoint/safetensors_writer.h"
#include "tests/launcher/config/error_matchers.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

DataRecord pictures(std::int64_t size) {
  return {.tokenizer = {.kind = "bpe", .hash = 0xfedcba9876543210, .vocab_size = 300},
          .images = ImageRecord{.size = size, .center = 0.875, .mean = {0.1, 0.2, 0.3}, .stddev = {1, 2, 3}}};
}

TEST(WeightsRecord, AnExportedFileHasItInItsHeader) {
  const testing::TemporaryFolder folder;
  std::map<std::string, std::string> metadata{{"format", "pt"}};
  add_data_record(pictures(32), metadata);
  SafetensorsWriter(folder / "model.safetensors", {}, metadata).commit();
  const WeightsRecord read = record_of_weights(folder / "model.safetensors", {});
  EXPECT_EQ(read.place, (folder / "model.safetensors").string());
  EXPECT_EQ(to_string(read.data.tokenizer), "bpe of 300 tokens, hash fedcba9876543210");
  ASSERT_TRUE(read.data.images);
  EXPECT_EQ(read.data.images->size, 32);
  EXPECT_EQ(read.data.images->center, 0.875);
  EXPECT_THAT(read.data.images->mean, ElementsAre(0.1, 0.2, 0.3));
  EXPECT_THAT(read.data.images->stddev, ElementsAre(1, 2, 3));

  SafetensorsWriter(folder / "plain.safetensors", {}, {{"format", "pt"}}).commit();
  const WeightsRecord plain = record_of_weights(folder / "plain.safetensors", {});
  EXPECT_TRUE(plain.data.tokenizer.kind.empty());
  EXPECT_FALSE(plain.data.images);
  SafetensorsWriter(folder / "bad.safetensors", {}, {{"trireme.images", "[]"}}).commit();
  EXPECT_THAT(error_message([&] { record_of_weights(folder / "bad.safetensors", {}); }),
              HasSubstr("trireme.images in its header is damaged"));
}

TEST(WeightsRecord, AnImageProcessorComesBack) {
  const testing::TemporaryFolder folder;
  testing::write_file(folder / "config.json", "{}");
  const auto file = folder / kHfPreprocessorFile;
  testing::write_file(file, hf_preprocessor_of(*pictures(32).images).dump());
  const WeightsRecord same = record_of_weights(folder.path(), pictures(32));
  ASSERT_TRUE(same.data.images);
  EXPECT_THAT(same.data.images->mean, ElementsAre(0.1, 0.2, 0.3));
  EXPECT_EQ(same.data.images->size, 32);
  EXPECT_THAT(same.notes, IsEmpty());
  EXPECT_THAT(record_of_weights(folder.path(), pictures(16)).notes, SizeIs(1));
}

TEST(WeightsRecord, EveryStepOfAnImageProcessorCounts) {
  const testing::TemporaryFolder folder;
  const auto file = folder / kHfPreprocessorFile;
  const auto read = [&](const char* text) {
    testing::write_file(file, text);
    return image_record_of_hf(file);
  };
  EXPECT_THAT(read("{}").mean, ElementsAre(0.5, 0.5, 0.5));
  EXPECT_THAT(read(R"({"do_normalize": false})").mean, ElementsAre(0, 0, 0));
  EXPECT_THAT(read(R"({"do_normalize": false})").stddev, ElementsAre(1, 1, 1));
  const ImageRecord unscaled =
      read(R"({"do_rescale": false, "image_mean": [127.5, 0, 0], "image_std": [255, 1, 1]})");
  EXPECT_THAT(unscaled.mean[0], DoubleNear(0.5, 1e-9));
  EXPECT_THAT(unscaled.stddev[0], DoubleNear(1, 1e-9));
  EXPECT_EQ(read(R"({"size": 24})").size, 24);
  EXPECT_EQ(read(R"({"size": {"shortest_edge": 24}})").size, 0);
  EXPECT_EQ(read(R"({"size": 32, "do_center_crop": true, "crop_size": {"height": 28, "width": 28}})").size,
            28);
  EXPECT_THAT(error_message([&] { read(R"({"image_mean": "x"})"); }), HasSubstr("image_mean is \"x\""));
  EXPECT_THAT(error_message([&] { read(R"({"size": {"height": 24, "width": 32}})"); }),
              HasSubstr("square pictures"));
}

}  // namespace
}  // namespace trireme
