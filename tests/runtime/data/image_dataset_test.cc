#include "runtime/data/image_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <set>

#include "runtime/data/image_folder.h"
#include "runtime/data/prefetch.h"
#include "runtime/data/synthetic_images.h"
#include "tests/support/host_memory.h"
#include "tests/support/picture_files.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::encode_jpeg;
using testing::encode_png;
using testing::gradient;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TemporaryFolder;
using testing::write_file;

bool same(const HostBatch& a, const HostBatch& b) {
  return a.input_shape == b.input_shape && a.target_shape == b.target_shape && a.inputs == b.inputs &&
         a.targets == b.targets && a.target_weights == b.target_weights;
}

/// Two classes of JPEGs and PNGs of several sizes; 11 images.
void fill(const TemporaryFolder& folder) {
  for (int i = 0; i < 11; ++i) {
    const int width = 20 + 7 * i, height = 60 - 3 * i;
    const auto pixels = gradient(width, height, static_cast<std::uint8_t>(20 * i));
    const std::string name = std::string(i < 5 ? "a/" : "b/") + static_cast<char>('a' + i);
    if (i % 3 == 0) {
      write_file(folder / (name + ".png"), encode_png({.width = width, .height = height}, pixels));
    } else {
      write_file(folder / (name + ".jpg"), encode_jpeg({.width = width, .height = height}, pixels));
    }
  }
}

std::shared_ptr<const ImageSource> open_folder(const TemporaryFolder& folder, std::int64_t cache_bytes = 0) {
  auto images =
      std::make_shared<ImageFolder>(ImageFolder::Options{.root = folder.path(), .max_pixels = 1 << 20});
  if (cache_bytes > 0) {
    images->keep_in(
        std::make_shared<PictureMemory>(testing::host_buffer(static_cast<std::size_t>(cache_bytes))));
  }
  return images;
}

ViewOptions small_view() {
  return {.size = 12, .crop = ViewOptions::Crop::kRandomResized, .flip = true, .mean = {0.5, 0.5, 0.5}};
}

/// Reads samples [0, count) in micro-batches of `micro_batch` through a prefetcher, and returns them as one
/// batch.
HostBatch read_all(const std::shared_ptr<const Dataset>& data, std::int64_t count, std::int64_t micro_batch,
                   int num_ranks, int workers) {
  std::map<std::int64_t, HostBatch> batches;  // by first sample
  for (int rank = 0; rank < num_ranks; ++rank) {
    std::vector<BatchRequest> requests;
    for (std::int64_t m = rank; m * micro_batch < count; m += num_ranks) {
      requests.push_back({.first = m * micro_batch, .count = std::min(micro_batch, count - m * micro_batch)});
    }
    Prefetcher prefetcher(data, requests, {.depth = 3, .workers = workers});
    for (const BatchRequest& request : requests) batches[request.first] = prefetcher.next().value();
  }
  HostBatch all;
  all.input_shape = {count};
  for (const auto& [first, batch] : batches) {
    all.inputs.insert(all.inputs.end(), batch.inputs.begin(), batch.inputs.end());
    all.targets.insert(all.targets.end(), batch.targets.begin(), batch.targets.end());
    all.target_weights.insert(all.target_weights.end(), batch.target_weights.begin(),
                              batch.target_weights.end());
  }
  return all;
}

TEST(ImageDataset, SamplesAreTheSameForAllWorkersRanksAndBatches) {
  const TemporaryFolder folder;
  fill(folder);
  write_file(folder / "a" / "broken.jpg", "no picture");
  const MixOptions mixes[] = {
      {}, {.mixup_alpha = 0.4}, {.mosaic_probability = 1}, {.mixup_alpha = 1, .mosaic_probability = 0.5}};
  for (const MixOptions& mix : mixes) {
    const auto open = [&](std::int64_t cache_bytes) {
      return std::make_shared<ImageDataset>(
          ImageDataset::Options{.source = open_folder(folder, cache_bytes),
                                .view = small_view(),
                                .mix = mix,
                                .on_bad_image = ImageDataset::OnBadImage::kSkip,
                                .seed = 9});
    };
    const HostBatch expected = read_all(open(0), 30, 30, 1, 0);
    EXPECT_EQ(expected.targets.size(), 30u * static_cast<std::size_t>(mix.group_size()));
    for (const int ranks : {1, 2, 4}) {
      for (const int workers : {1, 2, 4}) {
        for (const std::int64_t micro_batch : {1, 6, 8}) {
          const HostBatch batch = read_all(open(ranks == 2 ? 20000 : 0), 30, micro_batch, ranks, workers);
          EXPECT_TRUE(same(batch, expected)) << ranks << " " << workers << " " << micro_batch;
        }
      }
    }
  }
}

TEST(ImageDataset, APassHoldsEveryPictureOnce) {
  const TemporaryFolder folder;
  fill(folder);
  const ImageDataset data({.source = open_folder(folder), .view = {.size = 4}, .seed = 3});
  ASSERT_EQ(data.num_samples(), 11);
  // The blue value of the middle identifies the image.
  const auto blues = [&](std::int64_t first) {
    const HostBatch batch = data.read_train(first, 11);
    std::vector<int> values;
    for (std::int64_t i = 0; i < 11; ++i) {
      float blue = 0;
      std::memcpy(&blue, batch.inputs.data() + (i * 4 * 4 * 3 + 2) * sizeof(float), sizeof blue);
      values.push_back(static_cast<int>(blue * 255 / 20 + 0.5f));
      EXPECT_EQ(batch.targets[static_cast<std::size_t>(i)], values.back() < 5 ? 0 : 1);
    }
    return values;
  };
  const auto first = blues(0), second = blues(11);
  EXPECT_EQ(std::set<int>(first.begin(), first.end()).size(), 11u);
  EXPECT_EQ(std::set<int>(second.begin(), second.end()).size(), 11u);
  EXPECT_NE(first, second);
  const HostBatch in_order = data.read_sequential(0, 11);
  EXPECT_THAT(in_order.targets, ElementsAre(0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1));
  EXPECT_EQ(in_order.input_shape, Shape({11, 4, 4, 3}));
  EXPECT_THROW(data.read_sequential(5, 7), Error);
}

TEST(ImageDataset, AugmentationChangesWithTheEpochAndTheSeed) {
  const TemporaryFolder folder;
  write_file(folder / "a" / "1.png", encode_png({.width = 64, .height = 64}, gradient(64, 64)));
  const auto first_sample = [&](std::uint64_t seed, std::int64_t sample) {
    const ImageDataset data({.source = open_folder(folder), .view = small_view(), .seed = seed});
    return data.read_train(sample, 1).inputs;
  };
  EXPECT_EQ(first_sample(1, 0), first_sample(1, 0));
  EXPECT_NE(first_sample(1, 0), first_sample(1, 1));
  EXPECT_NE(first_sample(1, 0), first_sample(2, 0));
}

TEST(ImageDataset, LabelWeightsSumToOne) {
  const TemporaryFolder folder;
  fill(folder);
  const ImageDataset data({.source = open_folder(folder),
                           .view = small_view(),
                           .mix = {.mixup_alpha = 1, .mosaic_probability = 0.5},
                           .seed = 9});
  const HostBatch batch = data.read_train(0, 64);
  EXPECT_EQ(batch.target_shape, Shape({64, 4}));
  for (std::size_t row = 0; row < 64; ++row) {
    float sum = 0;
    for (std::size_t k = 0; k < 4; ++k) {
      EXPECT_GE(batch.target_weights[row * 4 + k], 0);
      EXPECT_TRUE(batch.targets[row * 4 + k] == 0 || batch.targets[row * 4 + k] == 1);
      sum += batch.target_weights[row * 4 + k];
    }
    EXPECT_NEAR(sum, 1, 1e-6);
  }
  EXPECT_TRUE(data.read_sequential(0, 4).target_weights.empty());
}

TEST(ImageDataset, ABadPictureIsNamed) {
  const TemporaryFolder folder;
  fill(folder);
  write_file(folder / "a" / "aa.jpg", "");
  const ImageDataset strict({.source = open_folder(folder), .view = small_view()});
  EXPECT_THAT(message_of([&] { strict.read_sequential(0, 12); }),
              AllOf(HasSubstr("a/aa.jpg has 0 bytes"), HasSubstr("ImageDataset::Options::on_bad_image")));
}

TEST(ImageDataset, ABadPictureIsLeftOutOfAnEvaluationAndReplacedInTraining) {
  const TemporaryFolder folder;
  fill(folder);
  const auto skipping = [&] {
    return ImageDataset::Options{
        .source = open_folder(folder), .view = {.size = 4}, .on_bad_image = ImageDataset::OnBadImage::kSkip};
  };
  const HostBatch good = ImageDataset(skipping()).read_sequential(0, 11);
  write_file(folder / "b" / "j.png", "");              // image 9
  write_file(folder / "b" / "k.jpg", "\xFF\xD8\xFF");  // image 10, the last
  const ImageDataset data(skipping());
  const HostBatch batch = data.read_sequential(0, 11);
  constexpr std::ptrdiff_t kBytes = 4 * 4 * 3 * sizeof(float);
  EXPECT_TRUE(std::equal(good.inputs.begin(), good.inputs.begin() + 9 * kBytes, batch.inputs.begin()));
  for (const std::ptrdiff_t row : {9, 10}) {
    EXPECT_TRUE(std::all_of(batch.inputs.begin() + row * kBytes, batch.inputs.begin() + (row + 1) * kBytes,
                            [](std::byte b) { return b == std::byte{0}; }));
    EXPECT_EQ(batch.targets[static_cast<std::size_t>(row)], -1);
  }
  const HostBatch train = data.read_train(0, 11);  // one pass: image 0 replaces the last two
  EXPECT_EQ(std::ranges::count_if(train.targets, [](std::int32_t t) { return t < 0; }), 0);
  EXPECT_EQ(std::ranges::count(train.targets, 1) + 2, std::ranges::count(good.targets, 1));
  EXPECT_THAT(data.left_out(),
              ElementsAre(HasSubstr("b/j.png has 0 bytes"), HasSubstr("b/k.jpg is not a whole")));
}

TEST(ImageDataset, WithoutAGoodPictureThereIsNoBatch) {
  const TemporaryFolder folder;
  write_file(folder / "a" / "1.jpg", "");
  write_file(folder / "a" / "2.jpg", "x");
  const ImageDataset data(
      {.source = open_folder(folder), .view = {.size = 4}, .on_bad_image = ImageDataset::OnBadImage::kSkip});
  EXPECT_THAT(message_of([&] { data.read_train(0, 1); }), HasSubstr("none of the 2 pictures can be decoded"));
}

TEST(SyntheticImages, AreRepeatableAndNormalised) {
  const SyntheticImages data({.num_samples = 64, .size = 16, .num_classes = 5, .seed = 4});
  const HostBatch batch = data.read_train(0, 64);
  EXPECT_EQ(batch.input_shape, Shape({64, 16, 16, 3}));
  EXPECT_TRUE(same(batch, data.read_train(0, 64)));
  EXPECT_EQ(data.read_train(3, 1).inputs, (std::vector<std::byte>(batch.inputs.begin() + 3 * 16 * 16 * 12,
                                                                  batch.inputs.begin() + 4 * 16 * 16 * 12)));
  EXPECT_NE(batch.inputs, data.read_sequential(0, 64).inputs);
  EXPECT_NE(batch.inputs, data.read_train(64, 64).inputs);
  std::set<std::int32_t> labels(batch.targets.begin(), batch.targets.end());
  EXPECT_EQ(labels, (std::set<std::int32_t>{0, 1, 2, 3, 4}));
  double sum = 0, squares = 0;
  std::vector<float> values(batch.inputs.size() / sizeof(float));
  std::memcpy(values.data(), batch.inputs.data(), batch.inputs.size());
  for (const float v : values) sum += v, squares += v * v;
  EXPECT_NEAR(sum / static_cast<double>(values.size()), 0, 0.2);
  EXPECT_NEAR(squares / static_cast<double>(values.size()), 1, 0.5);
}

}  // namespace
}  // namespace trireme
