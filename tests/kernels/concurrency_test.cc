// Several ranks of one process call kernels concurrently, each with its own threads.
#include <thread>

#include "tests/kernels/kernel_test.h"

namespace trireme::testing {
namespace {

constexpr std::int64_t kSamples = 2, kSeqLen = 70, kWidth = 48, kVocab = 131;
constexpr std::int64_t kTokens = kSamples * kSeqLen;

struct Inputs {
  std::vector<float> x, qkv_weight, head_weight, gamma;
  std::vector<std::int32_t> targets;
};

/// A small network: norm, product, attention, product, loss. Also computes the gradient of the last product's
/// weight.
Outputs run(const Rig& rig, const Inputs& in) {
  const DeviceArray x = rig.upload({kTokens, kWidth}, in.x), gamma = rig.upload({kWidth}, in.gamma);
  const DeviceArray y = rig.poisoned({kTokens, kWidth}), mean = rig.poisoned({kTokens});
  const DeviceArray rstd = rig.poisoned({kTokens}), qkv = rig.poisoned({kTokens, 3 * kWidth});
  const DeviceArray out = rig.poisoned({kTokens, kWidth}), lse = rig.poisoned({kSamples, 3, kSeqLen});
  const DeviceArray logits = rig.poisoned({kTokens, kVocab}), loss = rig.poisoned({});
  const DeviceArray dweight = rig.poisoned({kVocab, kWidth});
  rig.run(LayerNormFwdArgs{.x = x, .gamma = gamma, .beta = gamma, .y = y, .mean = mean, .rstd = rstd});
  rig.run(MatmulArgs{.a = y,
                     .b = rig.upload({3 * kWidth, kWidth}, in.qkv_weight),
                     .d = qkv,
                     .transpose_b = Transpose::kYes});
  rig.run(AttentionFwdArgs{.qkv = {qkv.view().data, DType::kFloat32, {kSamples, kSeqLen, 3 * kWidth}},
                           .out = {out.view().data, DType::kFloat32, {kSamples, kSeqLen, kWidth}},
                           .lse = lse,
                           .num_heads = 3,
                           .scale = 0.25f});
  rig.run(MatmulArgs{.a = out,
                     .b = rig.upload({kVocab, kWidth}, in.head_weight),
                     .d = logits,
                     .transpose_b = Transpose::kYes});
  rig.run(SoftmaxCrossEntropyArgs{
      .logits = logits, .targets = rig.upload({kTokens}, in.targets), .loss = loss, .write_gradient = true});
  rig.run(MatmulArgs{.a = logits, .b = out, .d = dweight, .transpose_a = Transpose::kYes});
  return {loss.download(), dweight.download()};
}

class ConcurrencyTest : public KernelTest {};

TEST_P(ConcurrencyTest, RanksAsThreadsDoNotDisturbEachOther) {
  const Inputs in{random(kTokens * kWidth), random(3 * kWidth * kWidth), random(kVocab * kWidth),
                  random(kWidth), random_ints(kTokens, 0, kVocab - 1)};
  const Outputs alone = run(rig(1), in);
  constexpr int kRanks = 3, kRounds = 10;
  std::vector<int> different(kRanks, 0);
  std::vector<std::thread> ranks;
  for (int r = 0; r < kRanks; ++r) {
    ranks.emplace_back([&, r] {
      const Rig mine = rig(1 + r % 2);
      for (int round = 0; round < kRounds; ++round) {
        const Outputs out = run(mine, in);
        different[r] += !same_bits(out[0], alone[0]) || !same_bits(out[1], alone[1]);
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  for (int r = 0; r < kRanks; ++r) EXPECT_EQ(different[r], 0) << "rank " << r;
}

TRIREME_INSTANTIATE_KERNEL_TEST(ConcurrencyTest);

}  // namespace
}  // namespace trireme::testing
