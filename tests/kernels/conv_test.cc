#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "tests/kernels/kernel_test.h"

namespace trireme::testing {
namespace {

struct Case {
  std::int64_t images, height, width, channels, outputs, kernel_height, kernel_width;
  ConvGeometry geometry;
  std::int64_t out_height() const {
    return (height + geometry.padding + geometry.end_padding() - kernel_height) / geometry.stride + 1;
  }
  std::int64_t out_width() const {
    return (width + geometry.padding + geometry.end_padding() - kernel_width) / geometry.stride + 1;
  }
  Shape x() const { return {images, height, width, channels}; }
  Shape weight() const { return {outputs, channels / geometry.groups, kernel_height, kernel_width}; }
  Shape y() const { return {images, out_height(), out_width(), outputs}; }
  std::string text() const {
    return fmt::format("x {}, weight {}, stride {}, padding {} and {}, groups {}", x().to_string(),
                       weight().to_string(), geometry.stride, geometry.padding, geometry.end_padding(),
                       geometry.groups);
  }
};

const Case kForSquares{4, 9, 13, 32, 48, 3, 3, {.stride = 1, .padding = 1}};

const Case kCases[] = {
    {2, 5, 7, 3, 4, 3, 3, {.stride = 1, .padding = 1}},
    {3, 9, 8, 16, 32, 3, 3, {.stride = 2, .padding = 1}},   // the last column is unused
    {1, 1, 1, 5, 7, 1, 1, {}},                              // 1 x 1 images
    {2, 1, 1, 4, 6, 3, 3, {.stride = 1, .padding = 1}},     // and a kernel that is mostly outside
    {9, 6, 5, 17, 33, 1, 1, {.stride = 2}},                 // a shortcut: a matrix product
    {5, 4, 4, 24, 20, 1, 1, {}},                            // the same without stride
    {2, 23, 21, 3, 16, 7, 7, {.stride = 2, .padding = 3}},  // a stem
    {17, 3, 3, 8, 8, 3, 3, {.stride = 1, .padding = 1}},    // pieces of several images, one smaller
    {2, 6, 6, 8, 12, 3, 3, {.stride = 1, .padding = 1, .groups = 4}},
    {3, 5, 5, 16, 16, 3, 3, {.stride = 2, .padding = 1, .groups = 16}},  // depthwise
    {1, 3, 127, 3, 1, 3, 3, {.stride = 1, .padding = 1}},                // one output
    {1, 1, 3, 1000, 127, 1, 1, {}},
    {2, 6, 7, 6, 4, 2, 3, {.stride = 3, .padding = 0}},  // a kernel that is not square
    {1, 5, 5, 4, 4, 1, 1, {.stride = 1, .padding = 1}},  // 1 x 1 kernel with padding
    {2, 8, 8, 64, 64, 3, 3, {.stride = 1, .padding = 1}},
    // For minimal filtering: squares cut by the edges, each padding, channels that fill panels partly, and
    // enough squares for several passes.
    kForSquares,
    {9, 7, 6, 48, 32, 3, 3, {.stride = 1, .padding = 0}},
    {6, 4, 7, 32, 80, 3, 3, {.stride = 1, .padding = 2}},
    {5, 22, 18, 32, 32, 3, 3, {.stride = 1, .padding = 1}},
    {2, 7, 8, 5, 6, 2, 2, {.stride = 3}},                              // pixels that no output reads
    {2, 9, 1, 4, 6, 3, 1, {.stride = 2}},                              // one column
    {3, 1, 1, 3, 8, 7, 7, {.stride = 2, .padding = 3}},                // a stem on one pixel
    {2, 1, 1, 6, 6, 3, 3, {.stride = 1, .padding = 1, .groups = 6}},   // depthwise on one pixel
    {2, 5, 6, 4, 12, 3, 3, {.stride = 1, .padding = 2, .groups = 4}},  // several outputs per channel
    {2, 4, 5, 6, 9, 1, 1, {.stride = 2, .padding = 0, .groups = 3}},   // a grouped 1 x 1 kernel
    // Numbers of channels that a library needs padded, with outputs that it can read.
    {2, 9, 7, 3, 8, 5, 3, {.stride = 2, .padding = 2}},
    {3, 6, 5, 5, 16, 3, 3, {.stride = 1, .padding = 1}},
    {1, 7, 6, 12, 24, 2, 2, {.stride = 2}},
    {67, 5, 4, 1, 8, 3, 3, {.stride = 1, .padding = 1}},  // more pixels than threads per block
    {2, 5, 7, 11, 8, 1, 1, {.stride = 2}},
    // Few channels: tiles of windows cut by the edges, with one and more outputs; windows that begin at odd
    // elements; kernels with more and with fewer factors than tiles are designed for.
    {1, 11, 19, 3, 8, 3, 3, {.stride = 1, .padding = 1}},
    {3, 5, 18, 7, 16, 3, 5, {.stride = 1, .padding = 0}},
    {1, 9, 8, 7, 8, 7, 7, {.stride = 1, .padding = 3}},
    {1, 15, 16, 4, 66, 4, 4, {.stride = 4, .padding = 0}},
    {1, 7, 18, 4, 8, 7, 7, {.stride = 2, .padding = 3}},
    {1, 9, 17, 2, 8, 1, 2, {.stride = 1, .padding = 0}},
    // Shortcuts: 1 x 1 with a stride that divides the image, that does not, and that leaves one pixel.
    {2, 8, 6, 16, 24, 1, 1, {.stride = 2}},
    {3, 7, 8, 24, 8, 1, 1, {.stride = 3}},
    {2, 3, 2, 8, 8, 1, 1, {.stride = 5}},
    {1, 3, 37, 136, 8, 1, 1, {.stride = 2}},              // rows with more accesses than a block has threads
    {2, 5, 6, 8, 16, 1, 1, {.stride = 2, .padding = 1}},  // 1 x 1 kernel with padding
    // Another padding at the end: with a stride; of an odd image, whose last pixels are unused; without a
    // stride; with minimal filtering; none at the end; with groups; few channels; and 1 x 1 kernels.
    {2, 8, 6, 16, 24, 3, 3, {.stride = 2, .padding_after = 1}},
    {3, 7, 5, 8, 8, 3, 3, {.stride = 2, .padding_after = 1}},
    {2, 5, 6, 12, 10, 3, 3, {.stride = 1, .padding = 0, .padding_after = 2}},
    {4, 9, 13, 32, 48, 3, 3, {.stride = 1, .padding = 0, .padding_after = 1}},
    {4, 9, 13, 32, 32, 3, 3, {.stride = 1, .padding = 2, .padding_after = 0}},
    {2, 6, 6, 8, 12, 3, 3, {.stride = 2, .padding = 1, .groups = 4, .padding_after = 0}},
    {1, 8, 18, 3, 8, 3, 3, {.stride = 2, .padding_after = 1}},
    {2, 4, 5, 8, 16, 1, 1, {.stride = 1, .padding_after = 1}},
    {2, 4, 5, 8, 16, 1, 1, {.stride = 2, .padding_after = 1}},
};

const Case& case_of(const Shape& x, const ConvGeometry& geometry) {
  return *std::find_if(std::begin(kCases), std::end(kCases),
                       [&](const Case& c) { return c.x() == x && c.geometry == geometry; });
}

// Runs term(index in x, in weight, in y) for all products of the sum.
template <class Term>
void for_each_product(const Case& c, const Term& term) {
  const std::int64_t in_group = c.channels / c.geometry.groups, out_group = c.outputs / c.geometry.groups;
  for (std::int64_t b = 0; b < c.images; ++b) {
    for (std::int64_t i = 0; i < c.out_height(); ++i) {
      for (std::int64_t j = 0; j < c.out_width(); ++j) {
        for (std::int64_t r = 0; r < c.kernel_height; ++r) {
          for (std::int64_t s = 0; s < c.kernel_width; ++s) {
            const std::int64_t h = i * c.geometry.stride + r - c.geometry.padding;
            const std::int64_t w = j * c.geometry.stride + s - c.geometry.padding;
            if (h < 0 || h >= c.height || w < 0 || w >= c.width) continue;
            for (std::int64_t o = 0; o < c.outputs; ++o) {
              for (std::int64_t k = 0; k < in_group; ++k) {
                term(((b * c.height + h) * c.width + w) * c.channels + o / out_group * in_group + k,
                     ((o * in_group + k) * c.kernel_height + r) * c.kernel_width + s,
                     ((b * c.out_height() + i) * c.out_width() + j) * c.outputs + o);
              }
            }
          }
        }
      }
    }
  }
}

class ConvTest : public KernelTest {
 protected:
  struct Inputs {
    std::vector<float> x, weight, bias, dy;
  };
  Inputs inputs(const Case& c, DType dtype) {
    return {random(c.x().num_elems(), 1.0f, dtype), random(c.weight().num_elems(), 1.0f, dtype),
            random(c.outputs, 1.0f, dtype), random(c.y().num_elems(), 1.0f, dtype)};
  }

  static Outputs run(const Rig& rig, const Case& c, const Inputs& in, DType dtype, GradientMode mode,
                     MathMode math = MathMode::kFp32, bool bias = true) {
    const DeviceArray x = rig.upload(c.x(), in.x, dtype), weight = rig.upload(c.weight(), in.weight, dtype);
    const DeviceArray b = rig.upload({c.outputs}, in.bias, dtype), dy = rig.upload(c.y(), in.dy, dtype);
    const DeviceArray y = rig.poisoned(c.y(), dtype), dx = rig.poisoned(c.x(), dtype);
    const DeviceArray dweight =
        mode == GradientMode::kOverwrite ? rig.poisoned(c.weight()) : rig.upload(c.weight(), in.weight);
    rig.run(Conv2dFwdArgs{.x = x,
                          .weight = weight,
                          .bias = bias ? ConstTensorView(b) : ConstTensorView{},
                          .y = y,
                          .geometry = c.geometry,
                          .math = math});
    rig.run(Conv2dBwdDataArgs{.dy = dy, .weight = weight, .dx = dx, .geometry = c.geometry, .math = math});
    // With an addend, separate and in place. x serves as addend because it has the same shape.
    const DeviceArray added = rig.poisoned(c.x(), dtype), in_place = rig.upload(c.x(), in.x, dtype);
    for (const DeviceArray* sum : {&added, &in_place}) {
      rig.run(Conv2dBwdDataArgs{.dy = dy,
                                .weight = weight,
                                .dx_add = sum == &added ? ConstTensorView(x) : ConstTensorView(in_place),
                                .dx = *sum,
                                .geometry = c.geometry,
                                .math = math});
    }
    rig.run(Conv2dBwdWeightArgs{
        .dy = dy, .x = x, .dweight = dweight, .geometry = c.geometry, .math = math, .mode = mode});
    return {y.download(), dx.download(), dweight.download(), added.download(), in_place.download()};
  }

  void expect_cases(DType dtype) {
    for (const Case& c : kCases) {
      SCOPED_TRACE(c.text());
      const Inputs in = inputs(c, dtype);
      const Outputs out = same_bits_for_all_threads(
          [&](const Rig& rig) { return run(rig, c, in, dtype, GradientMode::kOverwrite); });
      expect_reference(c, in, out, dtype, GradientMode::kOverwrite);
    }
  }

  static void expect_reference(const Case& c, const Inputs& in, const Outputs& out, DType dtype,
                               GradientMode mode) {
    std::vector<double> y(in.dy.size()), dx(in.x.size()), dweight(in.weight.size());
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = in.bias[i % static_cast<std::size_t>(c.outputs)];
    for_each_product(c, [&](std::int64_t at_x, std::int64_t at_weight, std::int64_t at_y) {
      y[at_y] += double{in.x[at_x]} * in.weight[at_weight];
      dx[at_x] += double{in.dy[at_y]} * in.weight[at_weight];
      dweight[at_weight] += double{in.dy[at_y]} * in.x[at_x];
    });
    if (mode == GradientMode::kIgnore) dweight.assign(in.weight.begin(), in.weight.end());
    expect_close(out[0], y, tolerance_of(dtype, kForwardTolerance), "y");
    expect_close(out[1], dx, tolerance_of(dtype, kForwardTolerance), "dx");
    for (std::size_t i = 0; i < dx.size(); ++i) dx[i] += in.x[i];
    expect_close(out[3], dx, tolerance_of(dtype, kForwardTolerance), "dx + addend");
    EXPECT_TRUE(same_bits(out[3], out[4]));
    expect_close(out[2], mode == GradientMode::kAccumulate ? accumulated(dweight, in.weight, mode) : dweight,
                 kForwardTolerance, "dweight");
  }
};

// One test per dtype, because libraries take a while to make a plan for every case.
TEST_P(ConvTest, MatchesReference) {
  expect_cases(DType::kFloat32);
}
TEST_P(ConvTest, MatchesReferenceFp16) {
  expect_cases(DType::kFloat16);
}
TEST_P(ConvTest, MatchesReferenceBf16) {
  expect_cases(DType::kBFloat16);
}

TEST_P(ConvTest, GradientModes) {
  const Case padded = case_of({3, 6, 5, 5}, {.stride = 1, .padding = 1}),
             shortcut = case_of({3, 7, 8, 24}, {.stride = 3}),
             padded_pixel = case_of({2, 5, 6, 8}, {.stride = 2, .padding = 1});
  for (const Case& c :
       {kCases[0], kCases[4], kCases[7], kCases[8], kForSquares, padded, shortcut, padded_pixel}) {
    SCOPED_TRACE(c.text());
    for (const DType dtype : kFloatTypes) {
      for (const GradientMode mode : {GradientMode::kAccumulate, GradientMode::kIgnore}) {
        const Inputs in = inputs(c, dtype);
        expect_reference(c, in, run(rig(), c, in, dtype, mode), dtype, mode);
      }
    }
  }
}

// tf32 rounds the inputs of products and nothing else.
TEST_P(ConvTest, Tf32) {
  for (const Case& c :
       {kCases[0], kCases[5], kCases[14], case_of({2, 8, 6, 16}, ConvGeometry{.stride = 2})}) {
    SCOPED_TRACE(c.text());
    Inputs in = inputs(c, DType::kFloat32);
    const auto run_tf32 = [&](const Inputs& inputs) {
      return run(rig(), c, inputs, DType::kFloat32, GradientMode::kOverwrite, MathMode::kTf32);
    };
    const Outputs out = run_tf32(in);
    // The hardware rounds differently: by half a unit of either factor. Native kernels do not round at all.
    const double tolerance = GetParam() == DeviceType::kCpu ? 1e-6 : 1e-3;
    for (std::vector<float>* values : {&in.x, &in.weight, &in.dy}) *values = rounded(*values, kTf32);
    const Outputs of_rounded = run(rig(), c, in, DType::kFloat32, GradientMode::kOverwrite);
    for (std::size_t i = 0; i < 3; ++i) {  // without the addends
      expect_close(out[i], std::vector<double>(of_rounded[i].begin(), of_rounded[i].end()), tolerance,
                   "tf32");
    }
  }
}

TEST_P(ConvTest, WithoutBiasAndWithNan) {
  const Case& c = kCases[0];
  Inputs in = inputs(c, DType::kFloat32);
  in.x[0] = std::numeric_limits<float>::quiet_NaN();
  in.bias.assign(in.bias.size(), 0.0f);
  const Outputs with = run(rig(), c, in, DType::kFloat32, GradientMode::kOverwrite);
  const Outputs without =
      run(rig(), c, in, DType::kFloat32, GradientMode::kOverwrite, MathMode::kFp32, /*bias=*/false);
  EXPECT_TRUE(same_bits(with[1], without[1]));
  for (std::size_t i = 0; i < with[0].size(); ++i) {
    EXPECT_EQ(std::isnan(with[0][i]), std::isnan(without[0][i]));
    if (std::isnan(with[0][i])) continue;
    EXPECT_FLOAT_EQ(with[0][i], without[0][i]);
  }
  EXPECT_TRUE(std::isnan(with[0][0]));
  EXPECT_TRUE(std::isnan(with[2][4]));
}

TRIREME_INSTANTIATE_KERNEL_TEST(ConvTest);

}  // namespace
}  // namespace trireme::testing
