// Chen et al. 2016, "Training deep nets with sublinear memory cost": a net of n blocks that keeps the input
// of every segment of k blocks, and runs a segment again for its backward, stores k + n / k. Here in bytes:
// one input per segment, and the tapes of the k blocks of one segment.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "parallel/foresee/predict.h"
#include "tests/support/tiny_gpt.h"

namespace trireme {
namespace {

constexpr std::int64_t kLayers = 24;

std::int64_t activations(std::int64_t layers, int recompute_every) {
  const GptConfig config{.layers = layers, .hidden = 128, .heads = 4, .vocab = 61, .seq_len = 64};
  const auto blocks = std::make_shared<const BlockList>(build_gpt(config));
  const Shape tokens{config.seq_len};
  const EngineOptions options{
      .global_batch = 4, .micro_batch = 4, .layout = {.recompute_every = recompute_every}};
  return predict_step(blocks, options, {.input = tokens, .target = tokens}, 1, 0)
      .memory.peak[MemoryCategory::kActivations];
}

TEST(Recompute, StoredActivationsFollowSegmentLengthAndNumber) {
  // The bytes that one block keeps for its backward, and its input [4, 64, 128] fp32.
  const std::int64_t block_bytes = activations(2, 0) - activations(1, 0);
  const std::int64_t input_bytes = std::int64_t{4} * 64 * 128 * 4;
  EXPECT_EQ(activations(kLayers, 0) - activations(1, 0), (kLayers - 1) * block_bytes);
  EXPECT_GT(block_bytes, 10 * input_bytes);
  // Units are the embedding, the blocks and the head. The last segment, which contains the head, does not run
  // again: its blocks are kept from the forward on. Every earlier segment has its input kept.
  const auto law = [&](std::int64_t k) {
    const std::int64_t segments = (kLayers + 2 + k - 1) / k;
    return std::pair{k, segments - 1};  // tapes of blocks, kept inputs: the first input has no bytes
  };
  const std::int64_t base = activations(kLayers, 4);
  for (const int k : {2, 3, 4, 6, 8, 12}) {
    const std::int64_t got = activations(kLayers, k);
    const auto [tapes, inputs] = law(k);
    const auto [base_tapes, base_inputs] = law(4);
    const std::int64_t expected =
        base + (tapes - base_tapes) * block_bytes + (inputs - base_inputs) * input_bytes;
    fmt::print("k = {:>2}: {:>9} B stored, by the law {:>9} B, everything {:>9} B\n", k, got, expected,
               activations(kLayers, 0));
    EXPECT_EQ(got, expected) << k;
  }
}

}  // namespace
}  // namespace trireme
