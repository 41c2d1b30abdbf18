// Rows that no block can hold are held by a cluster, or read again on cards without clusters: see
// [Note: rows on the chip].
#include "tests/kernels/cuda/emulation/emulation.h"
#include "tests/kernels/kernel_test.h"

namespace trireme::testing {
namespace {

struct Case {
  DType dtype;
  std::int64_t cols, pitch;
};

Outputs run(const Case& c, int capability, long expected_clusters) {
  emulation::compute_capability() = capability;
  const std::int64_t rows = 5;
  const Rig rig(DeviceType::kCuda, 1);
  std::vector<float> logits;
  for (std::int64_t i = 0; i < rows * c.pitch; ++i) {
    logits.push_back(static_cast<float>(i * 7919 % 4099) / 256 - 8);
  }
  const DeviceArray memory = rig.upload({rows, c.pitch}, logits, c.dtype), loss = rig.poisoned({});
  TensorView view = memory;
  view.shape = {rows, c.cols};
  const auto last = static_cast<std::int32_t>(c.cols - 1);
  const std::vector<std::int32_t> targets = {0, last, -1, last / 2, 4097};
  const long before = emulation::counts().clusters;
  rig.run(SoftmaxCrossEntropyArgs{.logits = view,
                                  .targets = rig.upload({rows}, targets),
                                  .loss = loss,
                                  .inv_num_targets = 0.25f,
                                  .gradient_scale = rig.scalar(1024.0f),
                                  .write_gradient = true,
                                  .logits_pitch = c.pitch});
  EXPECT_EQ(emulation::counts().clusters - before, expected_clusters);
  emulation::compute_capability() = 90;
  return {loss.download(), memory.download()};
}

TEST(CrossEntropyClusters, HaveTheBitsOfRowsReadAgain) {
  for (const Case& c : {Case{DType::kBFloat16, 151936, 151936}, Case{DType::kFloat16, 70001, 70016},
                        Case{DType::kBFloat16, 60001, 60001}, Case{DType::kFloat32, 29059, 29060}}) {
    SCOPED_TRACE(fmt::format("{} {} {}", name(c.dtype), c.cols, c.pitch));
    const Outputs again = run(c, 80, 0), held = run(c, 90, 1);
    EXPECT_TRUE(same_bits(held[0], again[0]));
    EXPECT_TRUE(same_bits(held[1], again[1]));
  }
  EXPECT_EQ(run({DType::kBFloat16, 50304, 50304}, 90, 0).size(), 2u) << "a block holds two such rows";
}

}  // namespace
}  // namespace trireme::testing
