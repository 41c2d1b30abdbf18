#include <cmath>
#include <limits>

#include "tests/kernels/kernel_test.h"

namespace trireme::testing {
namespace {

struct Case {
  std::int64_t images, height, width, channels;
  PoolWindow window;
  Shape x() const { return {images, height, width, channels}; }
  Shape y() const {
    return {images, (height + 2 * window.padding - window.height) / window.stride + 1,
            (width + 2 * window.padding - window.width) / window.stride + 1, channels};
  }
  std::string text() const {
    return fmt::format("{}, window {} x {}, stride {}, padding {}", x().to_string(), window.height,
                       window.width, window.stride, window.padding);
  }
};

const Case kCases[] = {
    {2, 9, 7, 5, {.height = 3, .width = 3, .stride = 2, .padding = 1}},
    {3, 8, 8, 33, {.height = 2, .width = 2, .stride = 2}},
    {5, 7, 7, 64, {.height = 7, .width = 7}},  // global
    {1, 3, 127, 3, {.height = 2, .width = 2, .stride = 2}},
    {1, 2, 2, 1000, {.height = 2, .width = 2}},
    {1, 1, 1, 3, {.height = 1, .width = 1}},
    {2, 6, 5, 4, {.height = 2, .width = 3, .stride = 3, .padding = 1}},
    {4, 5, 5, 16, {.height = 3, .width = 3, .stride = 1, .padding = 1}},  // windows overlap
    {2, 8, 7, 3, {.height = 2, .width = 2, .stride = 3}},                 // pixels outside every window
    {3, 1, 1, 5, {.height = 3, .width = 3, .stride = 2, .padding = 1}},   // one pixel and padding
    {2, 1, 6, 4, {.height = 1, .width = 3, .stride = 2}},                 // one row
    {1, 5, 3, 1, {.height = 4, .width = 3, .stride = 1, .padding = 1}},   // one channel
};

// Runs pixel(index in x, in y, place) for every pixel of every window, in order.
template <class Pixel>
void for_each_pixel(const Case& c, const Pixel& pixel) {
  const Shape y = c.y();
  for (std::int64_t o = 0; o < y.num_elems(); ++o) {
    const std::int64_t k = o % y[3], j = o / y[3] % y[2], i = o / y[3] / y[2] % y[1],
                       b = o / y[3] / y[2] / y[1];
    for (std::int64_t r = 0; r < c.window.height; ++r) {
      for (std::int64_t s = 0; s < c.window.width; ++s) {
        const std::int64_t h = i * c.window.stride + r - c.window.padding;
        const std::int64_t w = j * c.window.stride + s - c.window.padding;
        if (h < 0 || h >= c.height || w < 0 || w >= c.width) continue;
        pixel(((b * c.height + h) * c.width + w) * c.channels + k, o, r * c.window.width + s);
      }
    }
  }
}

class PoolTest : public KernelTest {};

TEST_P(PoolTest, Max) {
  for (const DType dtype : kFloatTypes) {
    for (const Case& c : kCases) {
      SCOPED_TRACE(c.text());
      const auto x = random(c.x().num_elems(), 1.0f, dtype), dy = random(c.y().num_elems(), 1.0f, dtype);
      const Outputs out = same_bits_for_all_threads([&](const Rig& rig) {
        const DeviceArray in = rig.upload(c.x(), x, dtype), y = rig.poisoned(c.y(), dtype),
                          place = rig.poisoned(c.y(), DType::kUInt8), gradient = rig.upload(c.y(), dy, dtype),
                          dx = rig.poisoned(c.x(), dtype), again = rig.poisoned(c.y(), dtype);
        rig.run(MaxPoolFwdArgs{.x = in, .y = y, .place = place, .window = c.window});
        rig.run(MaxPoolFwdArgs{.x = in, .y = again, .place = {}, .window = c.window});
        rig.run(MaxPoolBwdArgs{.dy = gradient, .place = place, .dx = dx, .window = c.window});
        return Outputs{y.download(), dx.download(), again.download()};
      });
      std::vector<double> y(dy.size(), -1e30), dx(x.size());
      std::vector<std::int64_t> from(dy.size());
      for_each_pixel(c, [&](std::int64_t in, std::int64_t o, std::int64_t) {
        if (x[in] > y[o]) from[o] = in;
        y[o] = std::max<double>(y[o], x[in]);
      });
      for (std::size_t o = 0; o < dy.size(); ++o) dx[from[o]] += dy[o];
      expect_close(out[0], y, 1e-30, "y");
      EXPECT_TRUE(same_bits(out[0], out[2]));
      expect_close(out[1], dx, tolerance_of(dtype, kForwardTolerance), "dx");
    }
  }
}

TEST_P(PoolTest, Average) {
  for (const DType dtype : kFloatTypes) {
    for (const Case& c : kCases) {
      SCOPED_TRACE(c.text());
      const auto x = random(c.x().num_elems(), 1.0f, dtype), dy = random(c.y().num_elems(), 1.0f, dtype);
      const Outputs out = same_bits_for_all_threads([&](const Rig& rig) {
        const DeviceArray in = rig.upload(c.x(), x, dtype), y = rig.poisoned(c.y(), dtype),
                          gradient = rig.upload(c.y(), dy, dtype), dx = rig.poisoned(c.x(), dtype);
        rig.run(AvgPoolFwdArgs{.x = in, .y = y, .window = c.window});
        rig.run(AvgPoolBwdArgs{.dy = gradient, .dx = dx, .window = c.window});
        return Outputs{y.download(), dx.download()};
      });
      const double pixels = static_cast<double>(c.window.height * c.window.width);
      std::vector<double> y(dy.size()), dx(x.size());
      for_each_pixel(c, [&](std::int64_t in, std::int64_t o, std::int64_t) {
        y[o] += x[in] / pixels;
        dx[in] += dy[o] / pixels;
      });
      expect_close(out[0], y, tolerance_of(dtype, kForwardTolerance), "y");
      expect_close(out[1], dx, tolerance_of(dtype, kForwardTolerance), "dx");
    }
  }
}

TEST_P(PoolTest, MaxTakesTheFirstOfEqualsAndNan) {
  const Case c{1, 2, 2, 1, {.height = 2, .width = 2}};
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto gradient_of = [&](const std::vector<float>& x) {
    const Rig rig = this->rig();
    const DeviceArray in = rig.upload(c.x(), x), y = rig.poisoned(c.y()),
                      dy = rig.upload(c.y(), std::vector<float>{1.0f}),
                      place = rig.poisoned(c.y(), DType::kUInt8), dx = rig.poisoned(c.x());
    rig.run(MaxPoolFwdArgs{.x = in, .y = y, .place = place, .window = c.window});
    rig.run(MaxPoolBwdArgs{.dy = dy, .place = place, .dx = dx, .window = c.window});
    return dx.download();
  };
  EXPECT_EQ(gradient_of({1, 3, 3, 3}), (std::vector<float>{0, 1, 0, 0}));
  EXPECT_EQ(gradient_of({1, nan, 3, nan}), (std::vector<float>{0, 1, 0, 0}));
  EXPECT_EQ(gradient_of({-3, -2, -1, -4}), (std::vector<float>{0, 0, 1, 0}));
}

TEST_P(PoolTest, Relu) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const DType dtype : kFloatTypes) {
    auto x = random(5003, 1.0f, dtype);
    const auto dy = random(5003, 1.0f, dtype);
    x[1] = 0.0f;
    x[2] = nan;
    const Outputs out = same_bits_for_all_threads([&](const Rig& rig) {
      const DeviceArray y = rig.upload({5003}, x, dtype), dx = rig.upload({5003}, dy, dtype);
      rig.run(ReluArgs{.x = y, .y = y});
      rig.run(ReluBwdArgs{.dy = dx, .y = y, .dx = dx});
      return Outputs{y.download(), dx.download()};
    });
    EXPECT_TRUE(std::isnan(out[0][2]));
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (i == 2) continue;
      EXPECT_EQ(out[0][i], std::max(0.0f, x[i]));
      EXPECT_EQ(out[1][i], x[i] > 0.0f ? dy[i] : 0.0f);
    }
  }
}

TRIREME_INSTANTIATE_KERNEL_TEST(PoolTest);

}  // namespace
}  // namespace trireme::testing
