// Cross-entropy with several weighted targets per row and with label smoothing.
#include <array>
#include <cmath>

#include "tests/kernels/kernel_test.h"

namespace trireme::testing {
namespace {

class SoftTargetsTest : public KernelTest {};

TEST_P(SoftTargetsTest, MatchesReference) {
  for (const DType dtype : kFloatTypes) {
    for (const float smoothing : {0.0f, 0.1f}) {
      for (const auto& [rows, cols, count] :
           {std::array<std::int64_t, 3>{5, 10, 1}, {17, 1000, 2}, {3, 33, 4}}) {
        const auto logits = random(rows * cols, 4.0f, dtype);
        auto targets = random_ints(rows * count, 0, static_cast<int>(cols) - 1);
        auto weights = random(rows * count);
        for (float& w : weights) w = std::fabs(w);
        for (std::int64_t k = 0; k < count; ++k) targets[k] = -1;  // a row without targets
        if (count > 1) targets[count + 1] = -1;                    // a row with some targets
        const Outputs out = same_bits_for_all_threads([&](const Rig& rig) {
          const DeviceArray x = rig.upload({rows, cols}, logits, dtype),
                            t = rig.upload({rows, count}, targets), w = rig.upload({rows, count}, weights),
                            loss = rig.poisoned({});
          rig.run(SoftmaxCrossEntropyArgs{.logits = x,
                                          .targets = t,
                                          .target_weights = w,
                                          .loss = loss,
                                          .inv_num_targets = 0.25f,
                                          .label_smoothing = smoothing,
                                          .write_gradient = true});
          return Outputs{loss.download(), x.download()};
        });
        double loss = 0;
        std::vector<double> gradient(logits.size());
        for (std::int64_t m = 0; m < rows; ++m) {
          const float* row = logits.data() + m * cols;
          double sum = 0, total = 0;
          for (std::int64_t j = 0; j < cols; ++j) sum += std::exp(double{row[j]});
          std::vector<double> q(static_cast<std::size_t>(cols));
          for (std::int64_t k = 0; k < count; ++k) {
            const std::int64_t i = m * count + k;
            if (targets[i] < 0) continue;
            total += weights[i];
            q[targets[i]] += (1 - double{smoothing}) * weights[i];
          }
          for (std::int64_t j = 0; j < cols; ++j) {
            q[j] += smoothing * total / static_cast<double>(cols);
            const double p = std::exp(double{row[j]}) / sum;
            loss -= 0.25 * q[j] * std::log(p);
            gradient[m * cols + j] = 0.25 * (total * p - q[j]);
          }
        }
        expect_close(out[0], {loss}, kForwardTolerance, "loss");
        expect_close(out[1], gradient, tolerance_of(dtype, kBackwardTolerance), "gradient");
      }
    }
  }
}

// Equal up to rounding, because rows with several targets are computed in another order.
TEST_P(SoftTargetsTest, ASecondTargetThatIsIgnoredChangesNothing) {
  const auto logits = random(4 * 50, 3.0f);
  const auto run = [&](const std::vector<std::int32_t>& targets) {
    const Rig rig = this->rig();
    const DeviceArray x = rig.upload({4, 50}, logits),
                      t = rig.upload({static_cast<std::int64_t>(targets.size())}, targets),
                      loss = rig.poisoned({});
    rig.run(SoftmaxCrossEntropyArgs{.logits = x, .targets = t, .loss = loss, .write_gradient = true});
    return Outputs{loss.download(), x.download()};
  };
  const Outputs one = run({1, 2, 3, 4}), two = run({1, -1, 2, -1, -1, 3, 4, -1});
  for (std::size_t i = 0; i < one.size(); ++i) {
    expect_close(two[i], std::vector<double>(one[i].begin(), one[i].end()), 1e-6, "loss and gradient");
  }
}

TRIREME_INSTANTIATE_KERNEL_TEST(SoftTargetsTest);

}  // namespace
}  // namespace trireme::testing
