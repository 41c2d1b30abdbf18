#include <cmath>
#include <limits>

#include "tests/kernels/kernel_test.h"

namespace trireme::testing {
namespace {

constexpr RngKey kRng{.seed = 0xFEDCBA9876543210ull, .step = 1234567, .block = 11, .op = 5};
constexpr std::int64_t kFirstSample = 9;

enum class Out { kApart, kOverX, kOverResidual };

class DropoutTest : public KernelTest {
 protected:
  static std::vector<float> expected(const Shape& shape, float p, const std::vector<float>& x,
                                     const std::vector<float>* residual, DropUnit unit = DropUnit::kElement) {
    const std::int64_t sample_elems = shape.num_elems() / shape[0];
    std::vector<float> y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto e = static_cast<std::uint32_t>(unit == DropUnit::kSample ? 0 : i % sample_elems);
      const auto sample = static_cast<std::uint32_t>(kFirstSample + i / sample_elems);
      const bool keep = uniform_from_bits(kRng.draw(sample, e / 4)[e % 4]) >= p;
      y[i] = (keep ? x[i] / (1.0f - p) : 0.0f) + (residual ? (*residual)[i] : 0.0f);
    }
    return y;
  }
};

TEST_P(DropoutTest, KeepsTheElementsOfTheContract) {
  for (const Shape& shape : {Shape{1, 1}, Shape{3, 127}, Shape{2, 100, 50}, Shape{1, 3}, Shape{2, 4099}}) {
    for (const float p : {0.0f, 0.1f, 0.5f, 0.9f}) {
      for (const bool with_residual : {false, true}) {
        for (const Out where : {Out::kApart, Out::kOverX, Out::kOverResidual}) {
          if (where == Out::kOverResidual && !with_residual) continue;
          SCOPED_TRACE(fmt::format("{} p {} residual {} out {}", shape.to_string(), p, with_residual,
                                   static_cast<int>(where)));
          const auto x = random(shape.num_elems()), residual = random(shape.num_elems());
          const Outputs out = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
            const DeviceArray dev_x = rig.upload(shape, x), dev_residual = rig.upload(shape, residual);
            const DeviceArray apart = rig.poisoned(shape);
            const DeviceArray& y = where == Out::kApart ? apart : where == Out::kOverX ? dev_x : dev_residual;
            DropoutArgs args{.x = dev_x, .y = y, .p = p, .rng = kRng, .first_sample = kFirstSample};
            if (with_residual) args.residual = dev_residual;
            rig.run(args);
            return {y.download()};
          });
          const auto want = expected(shape, p, x, with_residual ? &residual : nullptr);
          for (std::size_t i = 0; i < want.size(); ++i) {
            ASSERT_NEAR(out[0][i], want[i], 1e-6f * (1.0f + std::fabs(want[i]))) << i;
          }
        }
      }
    }
  }
}

// Splits anywhere, also inside a group of four.
TEST_P(DropoutTest, PartsOfSamplesDropWhatTheWholeDrops) {
  constexpr std::int64_t kElems = 5003;
  for (const DType dtype : kFloatTypes) {
    const auto x = random(kElems, 1.0f, dtype);
    const auto run = [&](std::int64_t first, std::int64_t count) {
      return same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
        const std::vector<float> part(x.begin() + first, x.begin() + first + count);
        const DeviceArray y = rig.upload({1, count}, part, dtype);
        rig.run(DropoutArgs{.x = y,
                            .residual = y,
                            .y = y,
                            .p = 0.4f,
                            .rng = kRng,
                            .first_sample = kFirstSample,
                            .first_elem = first});
        return {y.download()};
      })[0];
    };
    const auto whole = run(0, kElems);
    for (const std::int64_t cut : {1, 2, 3, 4, 1024, 2500, 4999}) {
      auto parts = run(0, cut);
      const auto rest = run(cut, kElems - cut);
      parts.insert(parts.end(), rest.begin(), rest.end());
      EXPECT_EQ(parts, whole) << name(dtype) << " cut at " << cut;
    }
  }
}

TEST_P(DropoutTest, SixteenBits) {
  const Shape shape{2, 4099};
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    const auto x = random(shape.num_elems(), 1.0f, dtype), residual = random(shape.num_elems(), 1.0f, dtype);
    for (const Out where : {Out::kApart, Out::kOverX, Out::kOverResidual}) {
      const Outputs out = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
        const DeviceArray dev_x = rig.upload(shape, x, dtype), added = rig.upload(shape, residual, dtype);
        const DeviceArray apart = rig.poisoned(shape, dtype);
        const DeviceArray& y = where == Out::kApart ? apart : where == Out::kOverX ? dev_x : added;
        rig.run(DropoutArgs{
            .x = dev_x, .residual = added, .y = y, .p = 0.3f, .rng = kRng, .first_sample = kFirstSample});
        return {y.download()};
      });
      const auto want = expected(shape, 0.3f, x, &residual);
      expect_close(out[0], {want.begin(), want.end()}, tolerance_of(dtype, kForwardTolerance), "y");
    }
  }
}

TEST_P(DropoutTest, WholeSamples) {
  for (const Shape& shape : {Shape{1, 1}, Shape{16, 3}, Shape{7, 4099}, Shape{9, 5, 8}}) {
    for (const DType dtype : kFloatTypes) {
      for (const Out where : {Out::kApart, Out::kOverX, Out::kOverResidual}) {
        SCOPED_TRACE(fmt::format("{} {} out {}", name(dtype), shape.to_string(), static_cast<int>(where)));
        const auto x = random(shape.num_elems(), 1.0f, dtype), added = random(shape.num_elems(), 1.0f, dtype);
        const Outputs out = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
          const DeviceArray dev_x = rig.upload(shape, x, dtype), residual = rig.upload(shape, added, dtype);
          const DeviceArray apart = rig.poisoned(shape, dtype);
          const DeviceArray& y = where == Out::kApart ? apart : where == Out::kOverX ? dev_x : residual;
          rig.run(DropoutArgs{.x = dev_x,
                              .residual = residual,
                              .y = y,
                              .p = 0.4f,
                              .unit = DropUnit::kSample,
                              .rng = kRng,
                              .first_sample = kFirstSample});
          return {y.download()};
        });
        const auto want = expected(shape, 0.4f, x, &added, DropUnit::kSample);
        expect_close(out[0], {want.begin(), want.end()}, tolerance_of(dtype, kForwardTolerance), "y");
      }
    }
  }
}

TEST_P(DropoutTest, NanPropagatesWhereKept) {
  const Rig r = rig();
  const Shape shape{1, 1000};
  const std::vector<float> x(1000, std::numeric_limits<float>::quiet_NaN());
  const DeviceArray y = r.upload(shape, x);
  r.run(DropoutArgs{.x = y, .y = y, .p = 0.5f, .rng = kRng, .first_sample = kFirstSample});
  const auto out = y.download();
  const auto want = expected(shape, 0.5f, std::vector<float>(1000, 1.0f), nullptr);
  for (std::size_t i = 0; i < out.size(); ++i) EXPECT_EQ(std::isnan(out[i]), want[i] != 0.0f) << i;
}

TRIREME_INSTANTIATE_KERNEL_TEST(DropoutTest);

}  // namespace
}  // namespace trireme::testing
