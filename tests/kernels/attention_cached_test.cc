// Attention of new tokens to cached ones. Runs a sequence in pieces, and compares it with textbook causal
// attention.
#include <cmath>

#include "tests/kernels/kernel_test.h"

namespace trireme::testing {
namespace {

struct Case {
  std::int64_t samples;
  int heads;
  std::int64_t head_dim, capacity;
  std::vector<std::int64_t> pieces;  // tokens of each call
  int kv_heads = heads;
  std::int64_t window = 0;
};
const Case kCases[] = {{1, 1, 1, 1, {1}},
                       {2, 3, 5, 9, {4, 1, 1, 2}},
                       {1, 2, 64, 300, {1, 270, 1, 20}},
                       {3, 4, 16, 40, {40}},
                       {2, 6, 8, 20, {7, 1, 1, 5}, 2},
                       {1, 4, 16, 12, {9, 3}, 1},
                       {2, 4, 8, 300, {7, 1, 270, 5}, 2, 6}};

class AttentionCachedTest : public KernelTest {
 protected:
  static std::int64_t total(const Case& c) {
    std::int64_t sum = 0;
    for (const std::int64_t tokens : c.pieces) sum += tokens;
    return sum;
  }
  static std::int64_t width(const Case& c) { return c.heads * c.head_dim; }
  static std::int64_t packed(const Case& c) { return (c.heads + 2 * c.kv_heads) * c.head_dim; }
  static float scale(const Case& c) { return 1.0f / std::sqrt(static_cast<float>(c.head_dim)); }

  /// Tokens [first, first + count) of every sample of x [B, T, cols].
  static std::vector<float> tokens_of(const Case& c, const std::vector<float>& x, std::int64_t cols,
                                      std::int64_t first, std::int64_t count) {
    std::vector<float> part;
    for (std::int64_t b = 0; b < c.samples; ++b) {
      const auto from = x.begin() + (b * total(c) + first) * cols;
      part.insert(part.end(), from, from + count * cols);
    }
    return part;
  }

  /// The outputs of all pieces in order, then keys and values.
  static Outputs run(const Rig& rig, const Case& c, const std::vector<float>& qkv, DType dtype,
                     MathMode math = MathMode::kFp32) {
    const DeviceArray keys = rig.poisoned({c.samples, c.kv_heads, c.capacity, c.head_dim}, dtype);
    const DeviceArray values = rig.poisoned({c.samples, c.kv_heads, c.capacity, c.head_dim}, dtype);
    Outputs outputs;
    std::int64_t first = 0;
    for (const std::int64_t tokens : c.pieces) {
      const DeviceArray out = rig.poisoned({c.samples, tokens, width(c)}, dtype);
      rig.run(AttentionCachedArgs{.qkv = rig.upload({c.samples, tokens, packed(c)},
                                                    tokens_of(c, qkv, packed(c), first, tokens), dtype),
                                  .keys = keys,
                                  .values = values,
                                  .out = out,
                                  .first = first,
                                  .num_heads = c.heads,
                                  .num_kv_heads = c.kv_heads,
                                  .scale = scale(c),
                                  .math = math,
                                  .window = c.window});
      outputs.push_back(out.download());
      first += tokens;
    }
    outputs.push_back(keys.download());
    outputs.push_back(values.download());
    return outputs;
  }

  /// [B, T, C] of the whole sequence.
  static std::vector<double> reference(const Case& c, const std::vector<float>& qkv) {
    const std::int64_t t = total(c), d = c.head_dim;
    const auto at = [&](std::int64_t b, std::int64_t token, int part, std::int64_t h) {
      const std::int64_t head = part == 0 ? h : c.heads + (part - 1) * c.kv_heads + h * c.kv_heads / c.heads;
      return qkv.data() + (b * t + token) * packed(c) + head * d;
    };
    std::vector<double> out(c.samples * t * width(c), 0.0);
    for (std::int64_t b = 0; b < c.samples; ++b) {
      for (std::int64_t h = 0; h < c.heads; ++h) {
        for (std::int64_t i = 0; i < t; ++i) {
          std::vector<double> weights;
          double sum = 0.0;
          const std::int64_t begin = c.window > 0 ? std::max(std::int64_t{0}, i + 1 - c.window) : 0;
          for (std::int64_t j = begin; j <= i; ++j) {
            double score = 0.0;
            for (std::int64_t x = 0; x < d; ++x) score += double{at(b, i, 0, h)[x]} * at(b, j, 1, h)[x];
            sum += weights.emplace_back(std::exp(score * scale(c)));
          }
          for (std::int64_t j = begin; j <= i; ++j) {
            for (std::int64_t x = 0; x < d; ++x) {
              out[(b * t + i) * width(c) + h * d + x] += weights[j - begin] / sum * at(b, j, 2, h)[x];
            }
          }
        }
      }
    }
    return out;
  }

  static std::vector<double> part_of(const Case& c, const std::vector<double>& out, std::int64_t first,
                                     std::int64_t count) {
    std::vector<double> part;
    for (std::int64_t b = 0; b < c.samples; ++b) {
      const auto from = out.begin() + (b * total(c) + first) * width(c);
      part.insert(part.end(), from, from + count * width(c));
    }
    return part;
  }
};

TEST_P(AttentionCachedTest, PiecesAreCausalAttention) {
  for (const DType dtype : kFloatTypes) {
    for (const Case& c : kCases) {
      SCOPED_TRACE(fmt::format("{} {} samples, {} heads on {} of {}, {} pieces", name(dtype), c.samples,
                               c.heads, c.kv_heads, c.head_dim, c.pieces.size()));
      const auto qkv = random(c.samples * total(c) * packed(c), 1.0f, dtype);
      const std::vector<double> expected = reference(c, qkv);
      const Outputs results =
          same_bits_for_all_threads([&](const Rig& rig) { return run(rig, c, qkv, dtype); });
      std::int64_t first = 0;
      for (std::size_t i = 0; i < c.pieces.size(); ++i) {
        SCOPED_TRACE(fmt::format("piece {}", i));
        expect_close(results[i], part_of(c, expected, first, c.pieces[i]),
                     tolerance_of(dtype, kForwardTolerance), "out");
        first += c.pieces[i];
      }
    }
  }
}

TEST_P(AttentionCachedTest, KeepsKeysAndValuesWhereToldAlone) {
  const Case c{.samples = 2, .heads = 2, .head_dim = 3, .capacity = 6, .pieces = {3, 2}};
  const auto qkv = random(c.samples * total(c) * 3 * width(c));
  const Outputs results = run(rig(), c, qkv, DType::kFloat32);
  for (const int part : {1, 2}) {
    const std::vector<float>& kept = results[c.pieces.size() + part - 1];
    std::size_t i = 0;
    for (std::int64_t b = 0; b < c.samples; ++b) {
      for (std::int64_t h = 0; h < c.heads; ++h) {
        for (std::int64_t token = 0; token < c.capacity; ++token) {
          for (std::int64_t x = 0; x < c.head_dim; ++x, ++i) {
            if (token >= total(c)) {
              EXPECT_TRUE(std::isnan(kept[i])) << i;
            } else {
              EXPECT_EQ(kept[i], qkv[(((b * total(c) + token) * 3 + part) * c.heads + h) * c.head_dim + x])
                  << i;
            }
          }
        }
      }
    }
  }
}

// Without `out`, keys and values are the same. tf32 keeps ten mantissa bits.
TEST_P(AttentionCachedTest, OnlyKeepsWithoutAnOutput) {
  const Case c{.samples = 1, .heads = 2, .head_dim = 4, .capacity = 3, .pieces = {3}};
  const auto qkv = random(total(c) * 3 * width(c));
  const Rig rig = this->rig();
  const DeviceArray keys = rig.poisoned({1, 2, 3, 4}), values = rig.poisoned({1, 2, 3, 4});
  rig.run(AttentionCachedArgs{
      .qkv = rig.upload({1, 3, 24}, qkv), .keys = keys, .values = values, .num_heads = 2, .scale = scale(c)});
  const Outputs whole = run(rig, c, qkv, DType::kFloat32);
  EXPECT_TRUE(same_bits(keys.download(), whole[1]));
  EXPECT_TRUE(same_bits(values.download(), whole[2]));
  const Outputs tf32 = run(rig, c, qkv, DType::kFloat32, MathMode::kTf32);
  expect_close(tf32[0], reference(c, qkv), 2e-3, "tf32");
}

TRIREME_INSTANTIATE_KERNEL_TEST(AttentionCachedTest);

}  // namespace
}  // namespace trireme::testing
