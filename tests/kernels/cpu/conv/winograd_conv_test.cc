// Minimal filtering with the numbers of channels of a ResNet's last stages, against sums in double precision.
// Its errors grow with the number of summed channels. The conformance suite covers small numbers.
#include "kernels/cpu/conv/winograd_conv.h"

#include <cmath>
#include <vector>

#include "tests/kernels/kernel_test.h"

namespace trireme::testing {
namespace {

// See [Note: Winograd]: errors of 7e-7 to 2.1e-6 forward, and of 4e-7 to 9.3e-7 for a weight, with 64 to 512
// channels. The errors of a single channel differ by a few percent between seeds.
constexpr double kForwardError = 2.5e-6, kWeightError = 1.1e-6;
constexpr std::int64_t kTaps = 9;

struct Case {
  std::int64_t images, side, channels;  // outputs = channels, padding 1

  Shape x() const { return {images, side, side, channels}; }
  Shape weight() const { return {channels, channels, 3, 3}; }
};

/// Sums in double over an image's pixels, for a few channels on one side and all channels on the other.
class Reference {
 public:
  Reference(const Case& c, const std::vector<float>& x, const std::vector<float>& weight,
            const std::vector<float>& dy)
      : c_(c), x_(x), weight_(weight), dy_(dy) {}

  std::vector<double> y(std::int64_t output) const {
    std::vector<double> sums;
    for_each_pixel([&](std::int64_t image, std::int64_t row, std::int64_t col) {
      double sum = 0;
      for (std::int64_t t = 0; t < kTaps; ++t) {
        const std::int64_t pixel = pixel_at(image, row + t / 3 - 1, col + t % 3 - 1);
        for (std::int64_t k = 0; pixel >= 0 && k < c_.channels; ++k) {
          sum += double{at(x_, pixel, k)} * weight_at(output, k, t);
        }
      }
      sums.push_back(sum);
    });
    return sums;
  }
  std::vector<double> dx(std::int64_t channel) const {
    std::vector<double> sums;
    for_each_pixel([&](std::int64_t image, std::int64_t row, std::int64_t col) {
      double sum = 0;
      for (std::int64_t t = 0; t < kTaps; ++t) {
        const std::int64_t pixel = pixel_at(image, row - t / 3 + 1, col - t % 3 + 1);
        for (std::int64_t o = 0; pixel >= 0 && o < c_.channels; ++o) {
          sum += double{at(dy_, pixel, o)} * weight_at(o, channel, t);
        }
      }
      sums.push_back(sum);
    });
    return sums;
  }
  /// [channels, 3, 3]
  std::vector<double> dweight(std::int64_t output) const {
    std::vector<double> sums(static_cast<std::size_t>(c_.channels * kTaps));
    for_each_pixel([&](std::int64_t image, std::int64_t row, std::int64_t col) {
      const double factor = at(dy_, pixel_at(image, row, col), output);
      for (std::int64_t t = 0; t < kTaps; ++t) {
        const std::int64_t pixel = pixel_at(image, row + t / 3 - 1, col + t % 3 - 1);
        for (std::int64_t k = 0; pixel >= 0 && k < c_.channels; ++k) {
          sums[static_cast<std::size_t>(k * kTaps + t)] += factor * at(x_, pixel, k);
        }
      }
    });
    return sums;
  }
  /// The values of one channel of [B, H, W, C].
  std::vector<float> channel_of(const std::vector<float>& all, std::int64_t channel) const {
    std::vector<float> values;
    for_each_pixel([&](std::int64_t image, std::int64_t row, std::int64_t col) {
      values.push_back(at(all, pixel_at(image, row, col), channel));
    });
    return values;
  }

 private:
  template <class Visit>
  void for_each_pixel(const Visit& visit) const {
    for (std::int64_t p = 0; p < c_.images * c_.side * c_.side; ++p) {
      visit(p / (c_.side * c_.side), p / c_.side % c_.side, p % c_.side);
    }
  }
  /// -1 for a pixel outside the image.
  std::int64_t pixel_at(std::int64_t image, std::int64_t row, std::int64_t col) const {
    const bool inside = row >= 0 && row < c_.side && col >= 0 && col < c_.side;
    return inside ? (image * c_.side + row) * c_.side + col : -1;
  }
  float at(const std::vector<float>& all, std::int64_t pixel, std::int64_t channel) const {
    return all[static_cast<std::size_t>(pixel * c_.channels + channel)];
  }
  float weight_at(std::int64_t output, std::int64_t channel, std::int64_t tap) const {
    return weight_[static_cast<std::size_t>((output * c_.channels + channel) * kTaps + tap)];
  }

  const Case& c_;
  const std::vector<float>&x_, &weight_, &dy_;
};

class WinogradConvTest : public KernelTest {};

TEST_P(WinogradConvTest, ManyChannelsStayWithinTheDocumentedErrors) {
  // Shapes of ResNet-50 at 224 x 224: as few images as minimal filtering accepts, with squares cut by the
  // edges.
  for (const Case& c : {Case{8, 14, 256}, Case{32, 7, 512}}) {
    SCOPED_TRACE(c.channels);
    const ConvGeometry geometry{.stride = 1, .padding = 1};
    const cpu::ConvShape shape = conv_extents<std::int64_t>(c.x(), c.weight(), c.x(), geometry);
    for (const cpu::ConvKind kind :
         {cpu::ConvKind::kFwd, cpu::ConvKind::kBwdData, cpu::ConvKind::kBwdWeight}) {
      ASSERT_TRUE(cpu::takes_winograd(kind, shape, DType::kFloat32, MathMode::kFp32));
    }
    const auto x = random(c.x().num_elems()), weight = random(c.weight().num_elems()),
               dy = random(c.x().num_elems());
    const Rig rig = this->rig();
    const DeviceArray dev_x = rig.upload(c.x(), x), dev_weight = rig.upload(c.weight(), weight),
                      dev_dy = rig.upload(c.x(), dy);
    const DeviceArray y = rig.poisoned(c.x()), dx = rig.poisoned(c.x()), dweight = rig.poisoned(c.weight());
    rig.run(Conv2dFwdArgs{.x = dev_x, .weight = dev_weight, .bias = {}, .y = y, .geometry = geometry});
    rig.run(Conv2dBwdDataArgs{.dy = dev_dy, .weight = dev_weight, .dx = dx, .geometry = geometry});
    rig.run(Conv2dBwdWeightArgs{.dy = dev_dy,
                                .x = dev_x,
                                .dweight = dweight,
                                .geometry = geometry,
                                .mode = GradientMode::kOverwrite});
    const Reference reference(c, x, weight, dy);
    const auto all_y = y.download(), all_dx = dx.download(), all_dweight = dweight.download();
    // A few channels, from the first and the last panel. All channels would take a minute.
    for (const std::int64_t channel : {std::int64_t{0}, c.channels / 2 + 5, c.channels - 1}) {
      expect_close(reference.channel_of(all_y, channel), reference.y(channel), kForwardError, "y");
      expect_close(reference.channel_of(all_dx, channel), reference.dx(channel), kForwardError, "dx");
      const auto first = all_dweight.begin() + channel * c.channels * kTaps;
      expect_close({first, first + c.channels * kTaps}, reference.dweight(channel), kWeightError, "dweight");
    }
  }
}

TRIREME_INSTANTIATE_KERNEL_TEST(WinogradConvTest);

}  // namespace
}  // namespace trireme::testing
