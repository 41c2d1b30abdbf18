#include "runtime/data/image_view.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "runtime/data/image_mix.h"
#include "tests/support/picture_files.h"

namespace trireme {
namespace {

using Stream = ImageRandom::Stream;

Image noise(int width, int height) {
  Image image{.size = {width, height}};
  ImageRandom random(Stream::kSynthetic, 1, 2, 3);
  for (int i = 0; i < width * height * 3; ++i)
    image.pixels.push_back(static_cast<std::uint8_t>(random.below(256)));
  return image;
}

/// Reference: a normalised triangle filter over all pixels of the image.
double scaled_pixel(const Image& image, const ImageBox& box, ImageSize size, int x, int y, int channel) {
  const double scale_x = box.width / size.width, scale_y = box.height / size.height;
  const double center_x = box.x + (x + 0.5) * scale_x, center_y = box.y + (y + 0.5) * scale_y;
  double sum = 0, total = 0;
  for (int v = 0; v < image.size.height; ++v) {
    for (int u = 0; u < image.size.width; ++u) {
      const double weight = std::max(0.0, 1 - std::abs(u + 0.5 - center_x) / std::max(1.0, scale_x)) *
                            std::max(0.0, 1 - std::abs(v + 0.5 - center_y) / std::max(1.0, scale_y));
      sum += weight * image.pixels[static_cast<std::size_t>((v * image.size.width + u) * 3 + channel)];
      total += weight;
    }
  }
  return sum / total;
}

TEST(Resample, EqualsItsDefinition) {
  const Image image = noise(23, 17);
  const ImageBox boxes[] = {
      {0, 0, 23, 17}, {3, 2, 5, 4}, {10.25, 0.5, 12.5, 16.5}, {7, 7, 1, 1}, {22, 0, 1, 17}};
  for (const ImageBox& box : boxes) {
    for (const ImageSize size : {ImageSize{8, 8}, ImageSize{31, 5}, ImageSize{1, 1}}) {
      for (const Mirror mirror : {Mirror::kNo, Mirror::kYes}) {
        std::vector<float> out(static_cast<std::size_t>(size.num_pixels()) * 3);
        resample(image, box, size, mirror, out.data());
        for (int y = 0; y < size.height; ++y) {
          for (int x = 0; x < size.width; ++x) {
            const int from = mirror == Mirror::kYes ? size.width - 1 - x : x;
            for (int c = 0; c < 3; ++c) {
              EXPECT_NEAR(out[static_cast<std::size_t>((y * size.width + x) * 3 + c)],
                          scaled_pixel(image, box, size, from, y, c), 1e-3);
            }
          }
        }
      }
    }
  }
}

TEST(Resample, TheWholePictureAtItsSizeIsACopy) {
  const Image image = noise(9, 6);
  std::vector<float> out(image.pixels.size());
  resample(image, {0, 0, 9, 6}, image.size, Mirror::kNo, out.data());
  for (std::size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], image.pixels[i]);
}

/// One image in memory, which records the requested reduction.
class OnePicture final : public ImageSource {
 public:
  explicit OnePicture(Image image) : image_(std::make_shared<const Image>(std::move(image))) {}
  std::int64_t num_images() const override { return 1; }
  std::int32_t label(std::int64_t) const override { return 0; }
  std::string name(std::int64_t) const override { return "one"; }
  const std::vector<std::string>& class_names() const override { return names_; }
  DataFingerprint fingerprint() const override { return {}; }
  void visit_files(const std::function<void(const std::filesystem::path&)>&) const override {}
  std::shared_ptr<const Image> load(std::int64_t, const ReductionChooser& choose) const override {
    reduction = choose(image_->size);
    return image_;
  }
  mutable int reduction = 0;

 private:
  std::shared_ptr<const Image> image_;
  std::vector<std::string> names_;
};

std::vector<float> view_of(const ImageSource& source, const ViewOptions& options,
                           const std::optional<ImageRandom>& random) {
  std::vector<float> out(static_cast<std::size_t>(options.size) * static_cast<std::size_t>(options.size) * 3);
  render_view(source, 0, options, random, out.data());
  return out;
}

TEST(ImageView, TheMiddleSquareIsNormalised) {
  const OnePicture source(noise(12, 8));
  const auto image = source.load(0, [](ImageSize) { return 1; });
  const ViewOptions options{.size = 6, .center = 0.75, .mean = {0.5, 0.25, 0}, .stddev = {0.2, 0.5, 1}};
  const auto view = view_of(source, options, std::nullopt);
  for (int y = 0; y < 6; ++y) {
    for (int x = 0; x < 6; ++x) {
      for (int c = 0; c < 3; ++c) {
        // The square of side 6 starts at (3, 1).
        const double stored = image->pixels[static_cast<std::size_t>(((y + 1) * 12 + x + 3) * 3 + c)] / 255.0;
        const auto channel = static_cast<std::size_t>(c);
        EXPECT_NEAR(view[static_cast<std::size_t>((y * 6 + x) * 3 + c)],
                    (stored - options.mean[channel]) / options.stddev[channel], 1e-5);
      }
    }
  }
}

TEST(ImageView, PaddingMovesAndMirrors) {
  const OnePicture source(noise(8, 8));
  const ViewOptions plain{.size = 8};
  const auto whole = view_of(source, plain, std::nullopt);
  ViewOptions padded = plain;
  padded.crop = ViewOptions::Crop::kPadded;
  padded.padding = 2;
  padded.flip = true;
  int matches = 0, num_mirrored = 0, num_moved = 0;
  for (std::uint32_t epoch = 0; epoch < 64; ++epoch) {
    const auto view = view_of(source, padded, ImageRandom(Stream::kView, 7, epoch, 0));
    // The view must equal one of 25 shifts, mirrored or not, in all pixels.
    for (int place = 0; place < 50; ++place) {
      const int dx = place % 5 - 2, dy = place / 5 % 5 - 2;
      bool equal = true;
      for (int y = 0; y < 8 && equal; ++y) {
        for (int x = 0; x < 8 && equal; ++x) {
          const int u = x + dx, v = y + dy, column = place >= 25 ? 7 - u : u;
          const bool inside = u >= 0 && u < 8 && v >= 0 && v < 8;
          const float expected = inside ? whole[static_cast<std::size_t>((v * 8 + column) * 3)] : 0.0f;
          equal = view[static_cast<std::size_t>((y * 8 + x) * 3)] == expected;
        }
      }
      if (!equal) continue;
      ++matches;
      num_mirrored += place >= 25;
      num_moved += dx != 0 || dy != 0;
    }
  }
  EXPECT_EQ(matches, 64);
  EXPECT_GT(num_mirrored, 16);
  EXPECT_LT(num_mirrored, 48);
  EXPECT_GT(num_moved, 48);
}

TEST(ImageView, ResizedCropsKeepTheirBounds) {
  const ViewOptions options{.size = 8, .area = {0.1, 0.6}, .aspect = {0.5, 2}};
  double sum_area = 0;
  for (std::uint32_t i = 0; i < 2000; ++i) {
    ImageRandom random(Stream::kView, 3, 0, i);
    const ImageBox box = draw_resized_crop({200, 150}, options, random);
    EXPECT_GE(box.x, 0);
    EXPECT_GE(box.y, 0);
    EXPECT_LE(box.x + box.width, 200);
    EXPECT_LE(box.y + box.height, 150);
    const double area = box.width * box.height / (200 * 150), aspect = box.width / box.height;
    EXPECT_GT(area, 0.1 - 0.02);
    EXPECT_LT(area, 0.6 + 0.02);
    EXPECT_GT(aspect, 0.5 - 0.02);
    EXPECT_LT(aspect, 2 + 0.04);
    sum_area += area;
  }
  EXPECT_NEAR(sum_area / 2000, 0.35, 0.03);  // below the mean area, because some wide crops do not fit
  // A strip that no draw fits: the center crop with the allowed aspect.
  ImageRandom random(Stream::kView, 3, 0, 0);
  const ImageBox strip = draw_resized_crop({1000, 10}, options, random);
  EXPECT_EQ(strip.x, 490);
  EXPECT_EQ(strip.width, 20);
  EXPECT_EQ(strip.height, 10);
}

TEST(ImageView, DecodesNoMoreThanItNeeds) {
  for (const auto& [side, reduction] :
       {std::pair{7, 1}, {16, 1}, {31, 1}, {32, 2}, {64, 4}, {127, 4}, {500, 8}}) {
    const OnePicture source(
        Image{.size = {side, side},
              .pixels = std::vector<std::uint8_t>(static_cast<std::size_t>(side * side * 3))});
    view_of(source, {.size = 16}, std::nullopt);
    EXPECT_EQ(source.reduction, reduction) << side;
  }
}

TEST(ImageMix, BetaHasItsMoments) {
  for (const double alpha : {0.2, 0.5, 1.0, 3.0}) {
    constexpr int kDraws = 20000;
    double sum = 0, squares = 0;
    for (std::uint32_t i = 0; i < kDraws; ++i) {
      ImageRandom random(Stream::kMix, 5, 0, i);
      const double x = draw_beta(alpha, random);
      ASSERT_GE(x, 0);
      ASSERT_LE(x, 1);
      sum += x;
      squares += x * x;
    }
    const double mean = sum / kDraws, variance = squares / kDraws - mean * mean;
    // Variance 1 / (4 (2 alpha + 1)); four standard errors of the mean.
    const double expected = 1 / (4 * (2 * alpha + 1));
    EXPECT_NEAR(mean, 0.5, 4 * std::sqrt(expected / kDraws));
    EXPECT_NEAR(variance, expected, 0.05 * expected);
  }
}

constexpr int kSide = 6;

/// The view of a member: pixel (x, y) is 1000 * member + 10 * y + x.
std::vector<float> member_view(int member) {
  std::vector<float> view;
  for (int i = 0; i < kSide * kSide; ++i) {
    view.insert(view.end(), 3, static_cast<float>(1000 * member + 10 * (i / kSide) + i % kSide));
  }
  return view;
}

std::vector<float> mixed(const Mixture& mixture) {
  const std::vector<float> views[] = {member_view(0), member_view(1), member_view(2), member_view(3)};
  std::vector<float> out(kSide * kSide * 3, -1.0f);
  apply_mixture(
      mixture, kSide, [&](int member) { return views[member].data(); }, out.data());
  return out;
}

TEST(ImageMix, MixUpAddsPartners) {
  double smallest = 1, largest = 0;
  for (std::uint32_t i = 0; i < 200; ++i) {
    const int own = static_cast<int>(i % 2);
    const Mixture mixture = draw_mixture({.mixup_alpha = 1}, own, kSide, ImageRandom(Stream::kMix, 5, 0, i));
    ASSERT_EQ(mixture.patches.size(), 2u);
    EXPECT_EQ(mixture.patches[0].member, own);
    EXPECT_EQ(mixture.patches[1].member, 1 - own);
    const float w = mixture.patches[0].weight;
    EXPECT_FLOAT_EQ(w + mixture.patches[1].weight, 1);
    const auto out = mixed(mixture), mine = member_view(own), theirs = member_view(1 - own);
    for (std::size_t k = 0; k < out.size(); ++k) EXPECT_NEAR(out[k], w * mine[k] + (1 - w) * theirs[k], 1e-3);
    smallest = std::min<double>(smallest, w);
    largest = std::max<double>(largest, w);
  }
  EXPECT_LT(smallest, 0.1);
  EXPECT_GT(largest, 0.9);
}

TEST(ImageMix, MosaicPatchesFourViews) {
  for (std::uint32_t i = 0; i < 200; ++i) {
    const Mixture mixture =
        draw_mixture({.mosaic_probability = 1}, 2, kSide, ImageRandom(Stream::kMix, 5, 0, i));
    ASSERT_EQ(mixture.patches.size(), 4u);
    const auto out = mixed(mixture);
    std::vector<int> covered(kSide * kSide);
    double sum = 0;
    for (int member = 0; member < 4; ++member) {
      const Mixture::Patch& patch = mixture.patches[static_cast<std::size_t>(member)];
      EXPECT_EQ(patch.member, member);
      EXPECT_FLOAT_EQ(patch.weight, static_cast<float>(patch.width * patch.height) / (kSide * kSide));
      sum += patch.weight;
      for (int y = 0; y < patch.height; ++y) {
        for (int x = 0; x < patch.width; ++x) {
          const int at = (patch.y + y) * kSide + patch.x + x;
          ++covered[static_cast<std::size_t>(at)];
          EXPECT_EQ(out[static_cast<std::size_t>(at) * 3],
                    1000 * member + 10 * (patch.from_y + y) + patch.from_x + x);
          EXPECT_LT(patch.from_x + x, kSide);
        }
      }
    }
    EXPECT_NEAR(sum, 1, 1e-6);
    for (const int times : covered) EXPECT_EQ(times, 1);
  }
}

TEST(ImageMix, ProbabilityAndNothing) {
  int num_mosaics = 0;
  for (std::uint32_t i = 0; i < 400; ++i) {
    const Mixture mixture =
        draw_mixture({.mosaic_probability = 0.25}, 1, kSide, ImageRandom(Stream::kMix, 5, 0, i));
    num_mosaics += mixture.patches.size() == 4;
    if (mixture.patches.size() == 1) {
      EXPECT_EQ(mixed(mixture), member_view(1));
    }
  }
  EXPECT_NEAR(num_mosaics, 100, 40);
}

}  // namespace
}  // namespace trireme
