// Korthikanti et al. 2022, "Reducing activation recomputation in large transformer models", table 2: bytes of
// activations per layer, in 16 bits, without attention's [T, T]. For s tokens, b samples, h columns and t
// tensor ranks: 34 sbh for one rank, sbh (10 + 24 / t) with tensor parallelism, 34 sbh / t with sequence
// parallelism, and 2 sbh / t with full recompute. Each contains 2 sbh (with sequence parallelism 2 sbh / t)
// for dropout masks, which Trireme does not store. In addition to the formula, norms store two floats per
// token, and attention one per token and head.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "models/gpt.h"
#include "parallel/foresee/predict.h"

namespace trireme {
namespace {

constexpr std::int64_t kSeqLen = 128, kBatch = 4, kHidden = 256, kHeads = 8;
constexpr std::int64_t kTokens = kSeqLen * kBatch, kSbh = kTokens * kHidden;

struct LayoutCase {
  int tensor = 1;
  bool sequence = false;
  int recompute_every = 0;
};

// Measured at a rank's peak, when the activations of all layers are alive.
std::int64_t bytes_a_layer(const LayoutCase& layout) {
  const auto activations = [&](std::int64_t layers) {
    const GptConfig config{.layers = layers,
                           .hidden = kHidden,
                           .heads = kHeads,
                           .vocab = 64,
                           .seq_len = kSeqLen,
                           .dropout = 0.1f,
                           .tensor_chunks = 8};
    const auto blocks = std::make_shared<const BlockList>(build_gpt(config));
    const Shape tokens{config.seq_len};
    const EngineOptions options{.global_batch = kBatch,
                                .micro_batch = kBatch,
                                .layout = {.tensor = layout.tensor,
                                           .sequence = layout.sequence,
                                           .recompute_every = layout.recompute_every},
                                .precision = Precision(PrecisionMode::kBf16)};
    return predict_step(blocks, options, {.input = tokens, .target = tokens}, layout.tensor, 0)
        .memory.peak[MemoryCategory::kActivations];
  };
  return (activations(12) - activations(4)) / 8;
}

TEST(SequenceMemory, ActivationsOfALayerFollowThePublishedFormulas) {
  constexpr std::int64_t kNorms = 2 * 2 * 4 * kTokens, kAttention = 4 * kHeads * kTokens;
  for (const int t : {1, 2, 4, 8}) {
    const std::int64_t tensor = bytes_a_layer({.tensor = t});
    EXPECT_EQ(tensor, (10 - 2) * kSbh + 24 * kSbh / t + kNorms + kAttention / t) << t;
    if (t == 1) continue;
    const std::int64_t sequence = bytes_a_layer({.tensor = t, .sequence = true});
    EXPECT_EQ(sequence, ((34 - 2) * kSbh + kNorms + kAttention) / t) << t;
    EXPECT_EQ(bytes_a_layer({.tensor = t, .sequence = true, .recompute_every = 1}), 2 * kSbh / t) << t;
    fmt::print(
        "{} tensor ranks: {:.2f} sbh per layer, {:.2f} with sequence parallelism; published {:.2f}, {:.2f}\n",
        t, static_cast<double>(tensor) / kSbh, static_cast<double>(sequence) / kSbh, 10 + 24.0 / t, 34.0 / t);
  }
}

}  // namespace
}  // namespace trireme
