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
  static std::vector<float> forward(const Rig& rig, const Case& c, const std::vector<float>& qkv, DType dtype,
                                    bool in_place = false) {
    const DeviceArray from = rig.upload({c.samples, c.seq_len, packed(c)}, qkv, dtype);
    const DeviceArray apart = rig.poisoned({c.samples, c.seq_len, packed(c)}, dtype);
    const DeviceArray& out = in_place ? from : apart;
    rig.run(RopeFwdArgs{
        .qkv = from, .out = out, .num_heads = c.heads, .num_kv_heads = c.kv_heads, .rope = frequencies(c)});
    return out.download();
  }
  static std::vector<float> backward(const Rig& rig, const Case& c, const std::vector<float>& dout,
                                     DType dtype, bool in_place) {
    const DeviceArray from = rig.upload({c.samples, c.seq_len, packed(c)}, dout, dtype);
    const DeviceArray apart = rig.poisoned({c.samples, c.seq_len, packed(c)}, dtype);
    const DeviceArray& dqkv = in_place ? from : apart;
    rig.run(RopeBwdArgs{.dout = from,
                        .dqkv = dqkv,
                        .num_heads = c.heads,
                        .num_kv_heads = c.kv_heads,
                        .rope = frequencies(c)});
    return dqkv.download();
  }

  /// Calls visit(from, to, coefficient) for all nonzero coefficients of the op.
  template <class Visit>
  static void for_each_coefficient(const Case& c, const Visit& visit) {
    const RopeFrequencies rope = frequencies(c);
    const std::int64_t dim = 2 * c.pairs;
    for (std::int64_t token = 0; token < c.samples * c.seq_len; ++token) {
      for (std::int64_t h = 0; h < c.heads + 2 * c.kv_heads; ++h) {
        const bool turns = h < c.heads + c.kv_heads;
        for (std::int64_t i = 0; i < c.pairs; ++i) {
          const double angle = static_cast<double>(token % c.seq_len) * rope.frequencies[i];
          const double cosine = turns ? std::cos(angle) : 1.0, sine = turns ? std::sin(angle) : 0.0;
          const std::int64_t x = token * packed(c) + h * dim + i, y = x + c.pairs;
          visit(x, x, cosine);
          visit(y, x, -sine);
          visit(y, y, cosine);
          visit(x, y, sine);
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
                 dout = random(tokens * packed(c), 1.0f, dtype);
      std::vector<double> out(tokens * packed(c)), dqkv(tokens * packed(c));
      for_each_coefficient(c, [&](std::int64_t from, std::int64_t to, double coefficient) {
        out[to] += coefficient * qkv[from];
        dqkv[from] += coefficient * dout[to];
      });
      const Outputs results = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
        return {forward(rig, c, qkv, dtype), backward(rig, c, dout, dtype, false)};
      });
      expect_close(results[0], out, tolerance_of(dtype, kForwardTolerance), "out");
      expect_close(results[1], dqkv, tolerance_of(dtype, kBackwardTolerance), "dqkv");
      EXPECT_TRUE(same_bits(results[0], forward(rig(), c, qkv, dtype, true))) << "in place";
      EXPECT_TRUE(same_bits(results[1], backward(rig(), c, dout, dtype, true))) << "in place";
    }
  }
}

// At position 100,000, an angle computed in fp32 would be off by 4e-3.
TEST_P(RopeTest, FarPositionsKeepTheirDigits) {
  const Case c{.samples = 1, .seq_len = 100'001, .heads = 1, .kv_heads = 1, .pairs = 2, .theta = 3.0};
  std::vector<float> qkv(c.seq_len * packed(c), 0.0f);
  const std::int64_t last = c.seq_len - 1;
  qkv[last * packed(c)] = qkv[last * packed(c) + 1] = 1.0f;
  const auto out = forward(rig(), c, qkv, DType::kFloat32);
  for (int i = 0; i < c.pairs; ++i) {
    const double angle = static_cast<double>(last) * frequencies(c).frequencies[i];
    EXPECT_NEAR(out[last * packed(c) + i], std::cos(angle), 1e-6);
    EXPECT_NEAR(out[last * packed(c) + i + c.pairs], std::sin(angle), 1e-6);
  }
}

TEST_P(RopeTest, NanStaysInItsPairAndHead) {
  const Case c{.samples = 1, .seq_len = 2, .heads = 4, .kv_heads = 2, .pairs = 2};
  std::vector<float> qkv(c.seq_len * packed(c), 1.0f);
  qkv[packed(c) + 4 * 4 + 1] = std::numeric_limits<float>::quiet_NaN();  // second token, first head of k
  const auto out = forward(rig(), c, qkv, DType::kFloat32);
  int nans = 0;
  for (const float value : out) nans += std::isnan(value);
  EXPECT_EQ(nans, 2);
  EXPECT_TRUE(std::isnan(out[packed(c) + 4 * 4 + 1]) && std::isnan(out[packed(c) + 4 * 4 + 3])) << "its pair";
}

TRIREME_INSTANTIATE_KERNEL_TEST(RopeTest);

}  // namespace
}  // namespace trireme::testing
