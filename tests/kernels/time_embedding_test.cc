#include <cmath>

#include "tests/kernels/kernel_test.h"

namespace trireme::testing {
namespace {

class TimeEmbeddingTest : public KernelTest {};

TEST_P(TimeEmbeddingTest, MatchesReference) {
  struct Case {
    std::int64_t dim;
    TimeHalves halves;
    float shift, scale, max_period;
  };
  const std::vector<float> timesteps = {0, 1, 7.5f, 250, 999, 1e6f};
  const auto samples = static_cast<std::int64_t>(timesteps.size());
  for (const Case& c :
       {Case{128, TimeHalves::kSineFirst, 1, 1, 10000}, Case{320, TimeHalves::kCosineFirst, 0, 1, 10000},
        Case{4, TimeHalves::kSineFirst, 1, 0.5f, 100}, Case{33, TimeHalves::kCosineFirst, 0, 2, 1000},
        Case{2, TimeHalves::kSineFirst, 0, 1, 10000}}) {
    SCOPED_TRACE(fmt::format("dim {} shift {} scale {} period {}", c.dim, c.shift, c.scale, c.max_period));
    const Outputs out = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
      const DeviceArray y = rig.poisoned({samples, c.dim});
      rig.run(TimeEmbeddingArgs{.timesteps = rig.upload({samples}, timesteps),
                                .out = y,
                                .halves = c.halves,
                                .frequency_shift = c.shift,
                                .scale = c.scale,
                                .max_period = c.max_period});
      return {y.download()};
    });
    const std::int64_t half = c.dim / 2;
    for (std::int64_t i = 0; i < samples * c.dim; ++i) {
      const std::int64_t col = i % c.dim;
      double expected = 0.0;  // of the last column of an odd dim
      if (col < 2 * half) {
        const double exponent =
            -static_cast<double>(col % half) / (static_cast<double>(half) - static_cast<double>(c.shift));
        const double angle =
            double{timesteps[i / c.dim]} * c.scale * std::pow(double{c.max_period}, exponent);
        const bool is_sine = (col < half) == (c.halves == TimeHalves::kSineFirst);
        expected = is_sine ? std::sin(angle) : std::cos(angle);
      }
      ASSERT_NEAR(out[0][i], expected, 1e-6) << i;
    }
  }
}

TRIREME_INSTANTIATE_KERNEL_TEST(TimeEmbeddingTest);

}  // namespace
}  // namespace trireme::testing
