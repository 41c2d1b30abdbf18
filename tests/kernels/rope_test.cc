#include <cmath>
#include <limits>

#include "tests/kernels/kernel_test.h"

namespace trireme::testing {
namespace {

struct Case {
  std::int64_t samples, seq_len;
  int heads, kv_heads, pairs;
  double theta = 10000.0;
};
constexpr Case kCases[] = {{1, 1, 1, 1, 1},   {2, 7, 2, 2, 3},  {2, 9, 6, 2, 4},
                           {1, 33, 8, 1, 16}, {3, 5, 4, 4, 32}, {1, 3, 2, 1, RopeFrequencies::kMaxPairs}};

class RopeTest : public KernelTest {
 protected:
  static RopeFrequencies frequencies(const Case& c) {
    RopeFrequencies rope{.num_pairs = c.pairs};
    for (int i = 0; i < c.pairs; ++i)
      rope.frequencies[i] = std::pow(c.theta, -static_cast<double>(i) / c.pairs);
    return rope;
  }
  static std::int64_t packed(const Case& c) { return std::int64_t{c.heads + 2 * c.kv_heads} * 2 * c.pairs; }
  static std::int64_t spread(const Case& c) { return std::int64_t{3} * c.heads * 2 * c.pairs; }

  static std::vector<float> forward(const Rig& rig, const Case& c, const std::vector<float>& qkv,
                                    DType dtype) {
    const DeviceArray out = rig.poisoned({c.samples, c.seq_len, spread(c)}, dtype);
    rig.run(RopeFwdArgs{.qkv = rig.upload({c.samples, c.seq_len, packed(c)}, qkv, dtype),
                        .out = out,
                        .num_heads = c.heads,
                        .num_kv_heads = c.kv_heads,
                        .rope = frequencies(c)});
    return out.download();
  }
  static std::vector<float> backward(const Rig& rig, const Case& c, const std::vector<float>& dout,
                                     DType dtype, bool in_place) {
    const DeviceArray from = rig.upload({c.samples, c.seq_len, spread(c)}, dout, dtype);
    const DeviceArray apart = rig.poisoned({c.samples, c.seq_len, packed(c)}, dtype);
    const DeviceArray& dqkv = in_place ? from : apart;
    rig.run(RopeBwdArgs{.dout = from,
                        .dqkv = dqkv,
                        .num_heads = c.heads,
                        .num_kv_heads = c.kv_heads,
                        .rope = frequencies(c)});
    return dqkv.download();
  }

  /// Calls visit(place in packed, place in spread, coefficient) for all nonzero coefficients of the op.
  template <class Visit>
  static void for_each_coefficient(const Case& c, const Visit& visit) {
    const RopeFrequencies rope = frequencies(c);
    const std::int64_t dim = 2 * c.pairs;
    for (std::int64_t token = 0; token < c.samples * c.seq_len; ++token) {
      for (int part = 0; part < 3; ++part) {
        for (std::int64_t h = 0; h < c.heads; ++h) {
          const std::int64_t head =
              part == 0 ? h : c.heads + (part - 1) * c.kv_heads + h * c.kv_heads / c.heads;
          for (std::int64_t i = 0; i < c.pairs; ++i) {
            const double angle = static_cast<double>(token % c.seq_len) * rope.frequencies[i];
            const double cosine = part == 2 ? 1.0 : std::cos(angle), sine = part == 2 ? 0.0 : std::sin(angle);
            const std::int64_t from = token * packed(c) + head * dim + i;
            const std::int64_t to = token * spread(c) + (part * c.heads + h) * dim + i;
            visit(from, to, cosine);
            visit(from + c.pairs, to, -sine);
            visit(from + c.pairs, to + c.pairs, cosine);
            visit(from, to + c.pairs, sine);
          }
        }
      }
    }
  }
};

TEST_P(RopeTest, MatchesReference) {
  for (const DType dtype : kFloatTypes) {
    for (const Case& c : kCases) {
      SCOPED_TRACE(fmt::format("{} {} x {} tokens, {} and {} heads of {} pairs", name(dtype), c.samples,
                               c.seq_len, c.heads, c.kv_heads, c.pairs));
      const std::int64_t tokens = c.samples * c.seq_len;
      const auto qkv = random(tokens * packed(c), 1.0f, dtype),
                 dout = random(tokens * spread(c), 1.0f, dtype);
      std::vector<double> out(tokens * spread(c)), dqkv(tokens * packed(c));
      for_each_coefficient(c, [&](std::int64_t from, std::int64_t to, double coefficient) {
        out[to] += coefficient * qkv[from];
        dqkv[from] += coefficient * dout[to];
      });
      const Outputs results = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
        return {forward(rig, c, qkv, dtype), backward(rig, c, dout, dtype, false)};
      });
      expect_close(results[0], out, tolerance_of(dtype, kForwardTolerance), "out");
      expect_close(results[1], dqkv, tolerance_of(dtype, kBackwardTolerance), "dqkv");
      if (c.heads == c.kv_heads) {
        EXPECT_TRUE(same_bits(results[1], backward(rig(), c, dout, dtype, true))) << "in place";
      }
    }
  }
}

// At position 100,000 an angle in fp32 would be off by 4e-3.
TEST_P(RopeTest, FarPositionsKeepTheirDigits) {
  const Case c{.samples = 1, .seq_len = 100'001, .heads = 1, .kv_heads = 1, .pairs = 2, .theta = 3.0};
  std::vector<float> qkv(c.seq_len * packed(c), 0.0f);
  const std::int64_t last = c.seq_len - 1;
  qkv[last * packed(c)] = qkv[last * packed(c) + 1] = 1.0f;
  const auto out = forward(rig(), c, qkv, DType::kFloat32);
  for (int i = 0; i < c.pairs; ++i) {
    const double angle = static_cast<double>(last) * frequencies(c).frequencies[i];
    EXPECT_NEAR(out[last * spread(c) + i], std::cos(angle), 1e-6);
    EXPECT_NEAR(out[last * spread(c) + i + c.pairs], std::sin(angle), 1e-6);
  }
}

TEST_P(RopeTest, NanStaysInItsPairAndHead) {
  const Case c{.samples = 1, .seq_len = 2, .heads = 4, .kv_heads = 2, .pairs = 2};
  std::vector<float> qkv(c.seq_len * packed(c), 1.0f);
  qkv[packed(c) + 4 * 4 + 1] = std::numeric_limits<float>::quiet_NaN();  // second token, first head of k
  const auto out = forward(rig(), c, qkv, DType::kFloat32);
  int nans = 0;
  for (const float value : out) nans += std::isnan(value);
  EXPECT_EQ(nans, 4);  // its pair, in the two query heads that read it
  for (const std::int64_t head : {4, 5}) {
    EXPECT_TRUE(std::isnan(out[spread(c) + head * 4 + 1]) && std::isnan(out[spread(c) + head * 4 + 3]))
        << head;
  }
}

TRIREME_INSTANTIATE_KERNEL_TEST(RopeTest);

}  // namespace
}  // namespace trireme::testing
