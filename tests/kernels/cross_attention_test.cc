#include <cmath>
#include <limits>

#include "tests/kernels/kernel_test.h"
#include "tests/support/sanitized.h"

namespace trireme::testing {
namespace {

struct Case {
  std::int64_t samples, num_queries, num_keys;
  int heads;
  std::int64_t head_dim;
  DType dtype = DType::kFloat32;
  MathMode math = MathMode::kFp32;

  std::int64_t width() const { return heads * head_dim; }
  Shape q() const { return {samples, num_queries, width()}; }
  Shape k() const { return {samples, num_keys, width()}; }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(head_dim)); }
  std::string text() const {
    return fmt::format("{} B {} T {} S {} heads {} of {}", name(dtype), samples, num_queries, num_keys, heads,
                       head_dim);
  }
};

struct Inputs {
  std::vector<float> q, k, v, dout;
};

struct Reference {
  std::vector<double> out, lse, dq, dk, dv;
};

/// Textbook softmax attention with the [T, S] matrix.
Reference reference(const Case& c, const Inputs& in) {
  Reference r{.out = std::vector<double>(in.q.size()),
              .lse = {},
              .dq = std::vector<double>(in.q.size()),
              .dk = std::vector<double>(in.k.size()),
              .dv = std::vector<double>(in.k.size())};
  const std::int64_t d = c.head_dim;
  for (std::int64_t row = 0; row < c.samples * c.heads * c.num_queries; ++row) {
    const std::int64_t i = row % c.num_queries, h = row / c.num_queries % c.heads,
                       b = row / c.num_queries / c.heads;
    const std::int64_t q = (b * c.num_queries + i) * c.width() + h * d;
    const auto key = [&](std::int64_t j) { return (b * c.num_keys + j) * c.width() + h * d; };
    std::vector<double> p(c.num_keys), dp(c.num_keys);
    double max = -std::numeric_limits<double>::infinity(), sum = 0, delta = 0;
    for (std::int64_t j = 0; j < c.num_keys; ++j) {
      for (std::int64_t x = 0; x < d; ++x) p[j] += double{in.q[q + x]} * in.k[key(j) + x];
      p[j] *= double{c.scale()};
      max = std::max(max, p[j]);
    }
    for (double& score : p) sum += score = std::exp(score - max);
    r.lse.push_back(max + std::log(sum));
    for (std::int64_t j = 0; j < c.num_keys; ++j) {
      p[j] /= sum;
      for (std::int64_t x = 0; x < d; ++x) {
        r.out[q + x] += p[j] * in.v[key(j) + x];
        dp[j] += double{in.dout[q + x]} * in.v[key(j) + x];
        r.dv[key(j) + x] += p[j] * in.dout[q + x];
      }
      delta += p[j] * dp[j];
    }
    for (std::int64_t j = 0; j < c.num_keys; ++j) {
      const double ds = p[j] * (dp[j] - delta) * double{c.scale()};
      for (std::int64_t x = 0; x < d; ++x) {
        r.dq[q + x] += ds * in.k[key(j) + x];
        r.dk[key(j) + x] += ds * in.q[q + x];
      }
    }
  }
  return r;
}

class CrossAttentionTest : public KernelTest {
 protected:
  Inputs inputs_of(const Case& c) {
    return {.q = random(c.q().num_elems(), 2.0f, c.dtype),
            .k = random(c.k().num_elems(), 2.0f, c.dtype),
            .v = random(c.k().num_elems(), 2.0f, c.dtype),
            .dout = random(c.q().num_elems(), 1.0f, c.dtype)};
  }

  // out, lse, dq, dk, dv.
  static Outputs run(const Rig& rig, const Case& c, const Inputs& in) {
    const DeviceArray q = rig.upload(c.q(), in.q, c.dtype), k = rig.upload(c.k(), in.k, c.dtype),
                      v = rig.upload(c.k(), in.v, c.dtype);
    const DeviceArray out = rig.poisoned(c.q(), c.dtype),
                      lse = rig.poisoned({c.samples, c.heads, c.num_queries});
    const DeviceArray dq = rig.poisoned(c.q(), c.dtype), dk = rig.poisoned(c.k(), c.dtype),
                      dv = rig.poisoned(c.k(), c.dtype);
    rig.run(CrossAttentionFwdArgs{.q = q,
                                  .k = k,
                                  .v = v,
                                  .out = out,
                                  .lse = lse,
                                  .num_heads = c.heads,
                                  .scale = c.scale(),
                                  .math = c.math});
    rig.run(CrossAttentionBwdArgs{.q = q,
                                  .k = k,
                                  .v = v,
                                  .dout = rig.upload(c.q(), in.dout, c.dtype),
                                  .out = out,
                                  .lse = lse,
                                  .dq = dq,
                                  .dk = dk,
                                  .dv = dv,
                                  .num_heads = c.heads,
                                  .scale = c.scale(),
                                  .math = c.math});
    return {out.download(), lse.download(), dq.download(), dk.download(), dv.download()};
  }

  Outputs outputs_of(const Case& c, const Inputs& in) const {
    return same_bits_for_all_threads([&](const Rig& rig) { return run(rig, c, in); });
  }

  // The tolerances of AttentionTest.
  void check(const Case& c) {
    SCOPED_TRACE(c.text());
    const Inputs in = inputs_of(c);
    const Outputs out = outputs_of(c, in);
    const Reference expected = reference(c, in);
    const bool rounds_factors = GetParam() == DeviceType::kCuda && size_bytes(c.dtype) == 2;
    const double factors = rounds_factors ? unit_roundoff(c.dtype) : 0.0;
    const double read_rounded = c.dtype == DType::kFloat32 ? 0.0 : unit_roundoff(c.dtype);
    const double terms = 4 * std::sqrt(static_cast<double>(c.head_dim));  // in a scaled score
    const auto backward = [&](const std::vector<double>& gradient) {
      return tolerance_of(c.dtype, kBackwardTolerance + read_rounded).for_terms(terms, gradient.size());
    };
    expect_close(out[0], expected.out, tolerance_of(c.dtype, kForwardTolerance + factors), "out");
    expect_close(out[1], expected.lse, Tolerance(kForwardTolerance).for_terms(terms, expected.lse.size()),
                 "lse");
    // A single key has the probability 1, and the gradient of its score is 0, up to rounding.
    if (c.num_keys > 1) {
      expect_close(out[2], expected.dq, backward(expected.dq), "dq");
      expect_close(out[3], expected.dk, backward(expected.dk), "dk");
    }
    expect_close(out[4], expected.dv, backward(expected.dv), "dv");
  }
};

TEST_P(CrossAttentionTest, MatchesReference) {
  for (Case c :
       {Case{1, 1, 1, 1, 1}, Case{2, 3, 5, 3, 5}, Case{3, 16, 32, 2, 16}, Case{2, 64, 77, 4, 40},
        Case{1, 127, 1, 3, 20}, Case{2, 1, 65, 1, 64}, Case{1, 200, 16, 2, 33}, Case{1, 16, 200, 1, 80},
        Case{1, 70, 33, 1, 160}, Case{1, 33, 64, 1, 256}, Case{1, kSanitized ? 100 : 300, 77, 1, 8}}) {
    for (const DType dtype : kFloatTypes) {
      if (dtype != DType::kFloat32 && c.num_queries * c.num_keys * c.width() > 500'000) continue;  // slow
      c.dtype = dtype;
      check(c);
    }
  }
}

TEST_P(CrossAttentionTest, Tf32RoundsTheFactors) {
  Case c{2, 70, 33, 2, 24};
  c.math = MathMode::kTf32;
  Inputs in = inputs_of(c);
  const Outputs out = outputs_of(c, in);
  for (std::vector<float>* values : {&in.q, &in.k, &in.v, &in.dout}) *values = rounded(*values, kTf32);
  const Reference expected = reference(c, in);
  const double tolerance = GetParam() == DeviceType::kCpu ? kBackwardTolerance : 2e-3;
  expect_close(out[0], expected.out, tolerance, "out");
  expect_close(out[2], expected.dq, tolerance, "dq");
  expect_close(out[3], expected.dk, tolerance, "dk");
  expect_close(out[4], expected.dv, tolerance, "dv");
}

// With equal lengths, the op has the bits of self-attention on the packed tensors.
TEST_P(CrossAttentionTest, EqualLengthsGiveTheBitsOfSelfAttention) {
  for (const std::int64_t tokens : {48, 65, 150}) {
    const Case c{2, tokens, tokens, 2, 24};
    const Inputs in = inputs_of(c);
    const Outputs cross = run(rig(), c, in);
    const std::int64_t width = c.width(), rows = c.samples * tokens;
    std::vector<float> packed;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (const std::vector<float>* part : {&in.q, &in.k, &in.v}) {
        packed.insert(packed.end(), part->begin() + row * width, part->begin() + (row + 1) * width);
      }
    }
    const Rig r = rig();
    const Shape shape{c.samples, tokens, 3 * width};
    const DeviceArray qkv = r.upload(shape, packed), out = r.poisoned(c.q()),
                      lse = r.poisoned({c.samples, c.heads, tokens}), dqkv = r.poisoned(shape);
    r.run(AttentionFwdArgs{
        .qkv = qkv, .out = out, .lse = lse, .num_heads = c.heads, .scale = c.scale(), .causal = false});
    r.run(AttentionBwdArgs{.dout = r.upload(c.q(), in.dout),
                           .qkv = qkv,
                           .out = out,
                           .lse = lse,
                           .dqkv = dqkv,
                           .num_heads = c.heads,
                           .scale = c.scale(),
                           .causal = false});
    EXPECT_TRUE(same_bits(cross[0], out.download()) && same_bits(cross[1], lse.download())) << tokens;
    const std::vector<float> gradients = dqkv.download();
    for (std::int64_t i = 0; i < rows * width; ++i) {
      const std::int64_t at = i / width * 3 * width + i % width;
      ASSERT_EQ(cross[2][i], gradients[at]) << i;
      ASSERT_EQ(cross[3][i], gradients[at + width]) << i;
      ASSERT_EQ(cross[4][i], gradients[at + 2 * width]) << i;
    }
  }
}

TEST_P(CrossAttentionTest, NanStaysInItsSample) {
  for (const DType dtype : kFloatTypes) {
    Case c{2, 20, 7, 2, 8};
    c.dtype = dtype;
    Inputs in = inputs_of(c);
    in.k[c.num_keys * c.width() + 3] = std::numeric_limits<float>::quiet_NaN();  // of sample 1, head 0
    const Outputs out = run(rig(), c, in);
    for (std::int64_t i = 0; i < c.q().num_elems(); ++i) {
      const bool is_hit = i >= c.num_queries * c.width() && i % c.width() < c.head_dim;
      EXPECT_EQ(std::isnan(out[0][i]), is_hit) << i;
      EXPECT_EQ(std::isnan(out[2][i]), is_hit) << i;
    }
  }
}

TRIREME_INSTANTIATE_KERNEL_TEST(CrossAttentionTest);

}  // namespace
}  // namespace trireme::testing
