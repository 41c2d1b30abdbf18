#include <cmath>
#include <limits>
#include <optional>

#include "tests/kernels/kernel_test.h"
#include "tests/support/sanitized.h"

namespace trireme::testing {
namespace {

struct Case {
  std::int64_t samples, seq_len;
  int heads;
  std::int64_t head_dim;
  bool causal = true;
  float dropout_p = 0.0f;
  DType dtype = DType::kFloat32;
  MathMode math = MathMode::kFp32;
  std::vector<std::int64_t> documents = {};  // lengths in each sample; empty: one document
  int kv_heads = heads;
  std::int64_t window = 0;

  std::int64_t width() const { return heads * head_dim; }
  std::int64_t packed() const { return (heads + 2 * kv_heads) * head_dim; }
};

/// [B, T, 2], or empty: see [Note: documents of a row].
std::vector<std::int32_t> key_bounds(const Case& c) {
  std::vector<std::int32_t> bounds;
  for (std::int64_t b = 0; b < c.samples; ++b) {
    std::int64_t first = 0;
    for (const std::int64_t length : c.documents) {
      for (std::int64_t i = 0; i < length; ++i) {
        bounds.push_back(static_cast<std::int32_t>(first));
        bounds.push_back(static_cast<std::int32_t>(first + length));
      }
      first += length;
    }
  }
  return bounds;
}

/// Textbook softmax attention with the [T, T] matrix.
class Reference {
 public:
  Reference(const Case& c, const std::vector<float>& qkv, float scale, const RngKey& rng,
            std::int64_t first_sample)
      : c_(c), qkv_(qkv), scale_(scale), rng_(rng), first_sample_(first_sample) {}

  std::vector<double> out, lse, dqkv;

  /// True if all but one of the row's probabilities are below e^-30, however its scores were rounded.
  bool has_one_winner(std::int64_t b, std::int64_t h, std::int64_t i) const {
    constexpr double kGap = 30.0, kRounding = 1e-5;  // kRounding is relative to the sum of |products|
    double best = -std::numeric_limits<double>::infinity(), second = best, magnitude = 0.0;
    for (std::int64_t j = first_key(i); j < end_of_keys(i); ++j) {
      const double s = score(b, h, i, j, &magnitude);
      second = std::max(second, std::min(best, s));
      best = std::max(best, s);
    }
    return best - second > kGap + kRounding * magnitude;
  }

  void run(const std::vector<float>& dout) {
    out.assign(c_.samples * c_.seq_len * c_.width(), 0.0);
    lse.assign(c_.samples * c_.heads * c_.seq_len, 0.0);
    dqkv.assign(c_.samples * c_.seq_len * c_.packed(), 0.0);
    for (std::int64_t b = 0; b < c_.samples; ++b) {
      for (std::int64_t h = 0; h < c_.heads; ++h) {
        for (std::int64_t i = 0; i < c_.seq_len; ++i) row(b, h, i, dout);
      }
    }
  }

 private:
  std::int64_t first_key(std::int64_t i) const {
    std::int64_t first = 0;
    for (const std::int64_t length : c_.documents) {
      if (i < first + length) break;
      first += length;
    }
    return c_.window > 0 ? std::max(first, i + 1 - c_.window) : first;
  }
  std::int64_t end_of_keys(std::int64_t i) const {
    if (c_.causal) return i + 1;
    std::int64_t end = 0;
    for (const std::int64_t length : c_.documents) {
      if (i < (end += length)) return end;
    }
    return c_.seq_len;
  }

  /// Index for query head h: its query, or the key or value that it reads (part 0, 1, 2).
  std::int64_t at(std::int64_t b, std::int64_t t, int part, std::int64_t h) const {
    const std::int64_t head =
        part == 0 ? h : c_.heads + (part - 1) * c_.kv_heads + h * c_.kv_heads / c_.heads;
    return (b * c_.seq_len + t) * c_.packed() + head * c_.head_dim;
  }

  /// *magnitude, if given, grows to the sum of |q k| times the scale.
  double score(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j,
               double* magnitude = nullptr) const {
    const std::int64_t q = at(b, i, 0, h), k = at(b, j, 1, h);
    double sum = 0.0, sum_of_magnitudes = 0.0;
    for (std::int64_t x = 0; x < c_.head_dim; ++x) {
      const double product = double{qkv_[q + x]} * qkv_[k + x];
      sum += product;
      sum_of_magnitudes += std::abs(product);
    }
    if (magnitude != nullptr) *magnitude = std::max(*magnitude, sum_of_magnitudes * scale_);
    return sum * scale_;
  }

  double weight(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    if (c_.dropout_p == 0.0f) return 1.0;
    const std::int64_t e = (h * c_.seq_len + i) * c_.seq_len + j;
    const auto words =
        rng_.draw(static_cast<std::uint32_t>(first_sample_ + b), static_cast<std::uint32_t>(e / 4));
    return uniform_from_bits(words[e % 4]) >= c_.dropout_p ? 1.0 / (1.0 - c_.dropout_p) : 0.0;
  }

  void row(std::int64_t b, std::int64_t h, std::int64_t i, const std::vector<float>& dout) {
    const std::int64_t first = first_key(i), keys = end_of_keys(i), d = c_.head_dim;
    const std::int64_t q = at(b, i, 0, h), o = (b * c_.seq_len + i) * c_.heads * d + h * d;
    std::vector<double> p(keys), dp(keys);  // 0 before `first`
    double max = -std::numeric_limits<double>::infinity(), sum = 0, delta = 0;
    for (std::int64_t j = first; j < keys; ++j) {
      p[j] = score(b, h, i, j);
      max = std::max(max, p[j]);
    }
    for (std::int64_t j = first; j < keys; ++j) sum += p[j] = std::exp(p[j] - max);
    lse[(b * c_.heads + h) * c_.seq_len + i] = max + std::log(sum);
    for (std::int64_t j = first; j < keys; ++j) {
      p[j] /= sum;
      const double w = weight(b, h, i, j);
      const std::int64_t v = at(b, j, 2, h);
      for (std::int64_t x = 0; x < d; ++x) {
        out[o + x] += p[j] * w * qkv_[v + x];
        dp[j] += w * double{dout[o + x]} * qkv_[v + x];
        dqkv[v + x] += p[j] * w * dout[o + x];
      }
      delta += p[j] * dp[j];
    }
    for (std::int64_t j = first; j < keys; ++j) {
      const double ds = p[j] * (dp[j] - delta) * scale_;
      const std::int64_t k = at(b, j, 1, h);
      for (std::int64_t x = 0; x < d; ++x) {
        dqkv[q + x] += ds * qkv_[k + x];
        dqkv[k + x] += ds * qkv_[q + x];
      }
    }
  }

  const Case& c_;
  const std::vector<float>& qkv_;
  const double scale_;
  const RngKey rng_;
  const std::int64_t first_sample_;
};

class AttentionTest : public KernelTest {
 protected:
  void nan_and_infinity_propagate(DType dtype);

  static constexpr RngKey kRng{.seed = 0x123456789ABCDEFull, .step = 17, .block = 3, .op = 2};
  static constexpr std::int64_t kFirstSample = 40;

  Outputs run(const Rig& rig, const Case& c, const std::vector<float>& qkv,
              const std::vector<float>& dout) const {
    const float scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim));
    const DeviceArray dev_qkv = rig.upload({c.samples, c.seq_len, c.packed()}, qkv, c.dtype);
    const DeviceArray out = rig.poisoned({c.samples, c.seq_len, c.width()}, c.dtype);
    const DeviceArray lse = rig.poisoned({c.samples, c.heads, c.seq_len});
    const std::vector<std::int32_t> host_bounds = key_bounds(c);
    std::optional<DeviceArray> bounds;
    if (!host_bounds.empty()) bounds.emplace(rig.upload({c.samples, c.seq_len, 2}, host_bounds));
    const ConstTensorView bounds_view = bounds ? ConstTensorView(*bounds) : ConstTensorView{};
    const DeviceArray dqkv = rig.poisoned({c.samples, c.seq_len, c.packed()}, c.dtype);
    // 0 means as many as query heads.
    const int kv_heads = c.kv_heads == c.heads ? 0 : c.kv_heads;
    rig.run(AttentionFwdArgs{.qkv = dev_qkv,
                             .out = out,
                             .lse = lse,
                             .num_heads = c.heads,
                             .num_kv_heads = kv_heads,
                             .scale = scale,
                             .causal = c.causal,
                             .math = c.math,
                             .dropout_p = c.dropout_p,
                             .rng = kRng,
                             .first_sample = kFirstSample,
                             .key_bounds = bounds_view,
                             .window = c.window});
    rig.run(AttentionBwdArgs{.dout = rig.upload({c.samples, c.seq_len, c.width()}, dout, c.dtype),
                             .qkv = dev_qkv,
                             .out = out,
                             .lse = lse,
                             .dqkv = dqkv,
                             .num_heads = c.heads,
                             .num_kv_heads = kv_heads,
                             .scale = scale,
                             .causal = c.causal,
                             .math = c.math,
                             .dropout_p = c.dropout_p,
                             .rng = kRng,
                             .first_sample = kFirstSample,
                             .key_bounds = bounds_view,
                             .window = c.window});
    return {out.download(), lse.download(), dqkv.download()};
  }

  void check(const Case& c) {
    SCOPED_TRACE(fmt::format("{} B {} T {} heads {} on {} of {} causal {} window {} dropout {}",
                             name(c.dtype), c.samples, c.seq_len, c.heads, c.kv_heads, c.head_dim, c.causal,
                             c.window, c.dropout_p));
    const std::int64_t tokens = c.samples * c.seq_len;
    const auto qkv = random(tokens * c.packed(), 2.0f, c.dtype),
               dout = random(tokens * c.width(), 1.0f, c.dtype);
    const Outputs outputs = same_bits_for_all_threads([&](const Rig& rig) { return run(rig, c, qkv, dout); });
    Reference reference(c, qkv, 1.0f / std::sqrt(static_cast<float>(c.head_dim)), kRng, kFirstSample);
    reference.run(dout);
    // Tensor cores take 16-bit factors. cuDNN rounds the probabilities before their product with the values,
    // and also the output. Each rounding adds at most one unit round-off: 1e-3 in total in fp16, 8e-3 in
    // bf16.
    const bool rounds_factors = GetParam() == DeviceType::kCuda && size_bytes(c.dtype) == 2;
    const double factors = rounds_factors ? unit_roundoff(c.dtype) : 0.0;
    expect_close(outputs[0], reference.out, tolerance_of(c.dtype, kForwardTolerance + factors), "out");
    const double terms = 4 * std::sqrt(static_cast<double>(c.head_dim));  // in a scaled score
    expect_close(outputs[1], reference.lse,
                 Tolerance(kForwardTolerance).for_terms(terms, reference.lse.size()), "lse");
    // Backward reads the rounded output of forward, which adds one round-off to every score's gradient. If
    // factors are rounded too (the probabilities for dV, the score gradients for dQ and dK), three
    // independent errors add as squares. Each is 0.42 unit round-offs in the norm of many elements, and all
    // three are 0.73, within the two allowed here.
    const double read_rounded = c.dtype == DType::kFloat32 ? 0.0 : unit_roundoff(c.dtype);
    expect_close(outputs[2], reference.dqkv, tolerance_of(c.dtype, kBackwardTolerance + read_rounded),
                 "dqkv");
  }
};

TEST_P(AttentionTest, MatchesReference) {
  for (const Case& c : {Case{1, 1, 1, 1}, Case{2, 3, 3, 5}, Case{3, 16, 2, 16}, Case{2, 64, 4, 32},
                        Case{1, 127, 3, 20}, Case{2, 65, 1, 64}, Case{1, 200, 2, 33}, Case{1, 128, 1, 80}}) {
    check(c);
    Case full = c;
    full.causal = false;
    check(full);
  }
  check({1, kSanitized ? 300 : 1000, 1, 3});
  check({1, 70, 1, 130});
}

TEST_P(AttentionTest, SixteenBits) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    for (Case c : {Case{1, 1, 1, 1}, Case{2, 3, 3, 5}, Case{1, 127, 3, 20}, Case{2, 65, 1, 64},
                   Case{1, 100, 2, 33, false}, Case{1, 67, 3, 8, true, 0.5f}, Case{1, 128, 1, 80}}) {
      c.dtype = dtype;
      check(c);
    }
  }
}

TEST_P(AttentionTest, DocumentsOfARowDoNotSeeEachOther) {
  for (Case c :
       {Case{2, 3, 3, 5, false, 0.0f, DType::kFloat32, MathMode::kFp32, {1, 2}},
        Case{1, 64, 2, 16, false, 0.0f, DType::kFloat32, MathMode::kFp32, {30, 33, 1}},
        Case{2, 200, 2, 33, false, 0.0f, DType::kFloat32, MathMode::kFp32, {64, 1, 1, 70, 60, 1, 1, 1, 1}},
        Case{1, 300, 1, 8, false, 0.0f, DType::kFloat32, MathMode::kFp32, {10, 200, 5, 85}},
        Case{1, 130, 2, 16, false, 0.2f, DType::kFloat32, MathMode::kFp32, {65, 65}}}) {
    for (const DType dtype : sampled(kFloatTypes, 3)) {
      c.dtype = dtype;
      c.causal = false;
      check(c);
      c.causal = true;
      check(c);
    }
  }
}

// Windows smaller and larger than a tile of 64, at its edges, and larger than the row.
TEST_P(AttentionTest, WindowsHideEarlierKeys) {
  for (const DType dtype : sampled(kFloatTypes, 3)) {
    for (const std::int64_t window : {1, 5, 63, 64, 65, 130, 400}) {
      Case c{2, 200, 2, 16, true, 0.0f, dtype};
      c.window = window;
      check(c);
    }
    Case grouped{1, 150, 4, 8, true, 0.2f, dtype};
    grouped.kv_heads = 2, grouped.window = 70;
    check(grouped);
    Case documents{1, 300, 1, 8, true, 0.0f, dtype, MathMode::kFp32, {10, 200, 5, 85}};
    documents.window = 70;
    check(documents);
  }
}

// A window of the whole row changes no bit.
TEST_P(AttentionTest, WindowOfTheWholeRow) {
  Case c{.samples = 1, .seq_len = 150, .heads = 2, .head_dim = 16};
  const std::int64_t elems = c.seq_len * c.width();
  const auto qkv = random(3 * elems), dout = random(elems);
  const Outputs without = run(rig(), c, qkv, dout);
  c.window = c.seq_len;
  const Outputs with = run(rig(), c, qkv, dout);
  for (std::size_t i = 0; i < with.size(); ++i) EXPECT_TRUE(same_bits(with[i], without[i])) << i;
}

TEST_P(AttentionTest, GroupsOfQueriesReadOneHeadOfKeys) {
  for (const DType dtype : sampled(kFloatTypes, 3)) {
    for (Case c : {Case{1, 3, 2, 5}, Case{2, 65, 6, 16}, Case{1, 64, 4, 32}, Case{1, 130, 4, 8, false},
                   Case{2, 40, 4, 8, true, 0.25f},
                   Case{1, 130, 4, 8, false, 0.0f, dtype, MathMode::kFp32, {64, 1, 65}}}) {
      c.dtype = dtype;
      for (const int kv_heads : {1, 2}) {
        c.kv_heads = kv_heads;
        check(c);
      }
    }
  }
}

// Copying the key heads for each query head gives the same output, and gradients that are sums over the
// copies.
TEST_P(AttentionTest, GroupedQueriesAreThoseOfCopiedKeys) {
  Case grouped{.samples = 2, .seq_len = 70, .heads = 6, .head_dim = 8};
  const Case copied = grouped;
  grouped.kv_heads = 2;
  const std::int64_t tokens = grouped.samples * grouped.seq_len;
  const auto qkv = random(tokens * grouped.packed(), 2.0f), dout = random(tokens * grouped.width());
  std::vector<float> spread;
  for (std::int64_t t = 0; t < tokens; ++t) {
    const float* row = qkv.data() + t * grouped.packed();
    spread.insert(spread.end(), row, row + grouped.width());
    for (std::int64_t i = 0; i < 2 * copied.heads; ++i) {
      const float* head = row + grouped.width() + i / 3 * grouped.head_dim;
      spread.insert(spread.end(), head, head + grouped.head_dim);
    }
  }
  const Outputs results = run(rig(), grouped, qkv, dout), expected = run(rig(), copied, spread, dout);
  EXPECT_TRUE(same_bits(results[0], expected[0]));
  EXPECT_TRUE(same_bits(results[1], expected[1]));
  for (std::int64_t t = 0; t < tokens; ++t) {
    const float* row = results[2].data() + t * grouped.packed();
    const float* wide = expected[2].data() + t * copied.packed();
    for (std::int64_t i = 0; i < grouped.width(); ++i) ASSERT_EQ(row[i], wide[i]) << "dq " << i;
  }
}

// The bits of a document do not depend on its neighbours if it is in the same tiles.
TEST_P(AttentionTest, PaddingDoesNotMatter) {
  const Case c{
      .samples = 1, .seq_len = 150, .heads = 2, .head_dim = 16, .causal = false, .documents = {100, 49, 1}};
  const std::int64_t width = c.heads * c.head_dim, elems = c.seq_len * width;
  auto qkv = random(3 * elems);
  const auto dout = random(elems);
  const Outputs before = run(rig(), c, qkv, dout);
  for (std::int64_t i = 100 * 3 * width; i < 3 * elems; ++i) qkv[i] += 1.0f;
  const Outputs after = run(rig(), c, qkv, dout);
  const auto head = [](const std::vector<float>& x, std::int64_t count) {
    return std::vector<float>(x.begin(), x.begin() + count);
  };
  EXPECT_TRUE(same_bits(head(before[0], 100 * width), head(after[0], 100 * width)));
  EXPECT_TRUE(same_bits(head(before[2], 100 * 3 * width), head(after[2], 100 * 3 * width)));
  EXPECT_FALSE(same_bits(before[0], after[0]));
}

// Compares with the reference on rounded inputs. If the kernel computes in fp32, as tensor cores may, or also
// rounds the probabilities, the bound is a tf32 round-off.
TEST_P(AttentionTest, Tf32RoundsItsInputs) {
  for (Case c : {Case{2, 3, 3, 5}, Case{1, 127, 3, 20}, Case{2, 65, 1, 64, false}, Case{1, 66, 1, 100},
                 Case{1, 34, 1, 130}}) {
    c.math = MathMode::kTf32;
    const std::int64_t elems = c.samples * c.seq_len * c.heads * c.head_dim;
    const auto qkv = random(3 * elems, 2.0f), dout = random(elems);
    const auto rounded_qkv = rounded(qkv, kTf32), rounded_dout = rounded(dout, kTf32);
    const Outputs outputs = same_bits_for_all_threads([&](const Rig& rig) { return run(rig, c, qkv, dout); });
    if (GetParam() == DeviceType::kCpu) {
      c.math = MathMode::kFp32;
      const Outputs exact = run(rig(), c, rounded_qkv, rounded_dout);
      for (std::size_t i = 0; i < exact.size(); ++i) EXPECT_TRUE(same_bits(outputs[i], exact[i])) << i;
      EXPECT_FALSE(same_bits(outputs[0], run(rig(), c, qkv, dout)[0]));
    }
    Reference reference(c, rounded_qkv, 1.0f / std::sqrt(static_cast<float>(c.head_dim)), kRng, kFirstSample);
    reference.run(rounded_dout);
    const double tolerance = GetParam() == DeviceType::kCpu ? kForwardTolerance : 1e-3;
    expect_close(outputs[0], reference.out, tolerance, "out");
    expect_close(outputs[1], reference.lse, tolerance, "lse");
    expect_close(outputs[2], reference.dqkv, std::max(tolerance, kBackwardTolerance), "dqkv");
  }
}

TEST_P(AttentionTest, DropsTheProbabilitiesOfTheContract) {
  for (const Case& c : {Case{2, 64, 2, 32, true, 0.25f}, Case{1, 67, 3, 8, true, 0.5f},
                        Case{1, 130, 1, 16, false, 0.1f}, Case{2, 1, 1, 4, true, 0.3f}}) {
    check(c);
  }
}

// Scores around +-200: the softmax must not overflow.
TEST_P(AttentionTest, LargeScores) {
  const Case c{1, 100, 2, 16};
  const std::int64_t elems = c.samples * c.seq_len * c.heads * c.head_dim;
  const auto qkv = random(3 * elems, 12.0f), dout = random(elems);
  const Outputs outputs = run(rig(), c, qkv, dout);
  Reference reference(c, qkv, 1.0f / std::sqrt(static_cast<float>(c.head_dim)), kRng, kFirstSample);
  reference.run(dout);
  expect_close(outputs[0], reference.out, kBackwardTolerance, "out");
  expect_close(outputs[1], reference.lse, kForwardTolerance, "lse");
}

// The rounding error of these scores exceeds the range of e^x. The maximum of a row must still cancel
// exactly, also with a scale that is not a power of two. Backward is only checked on rows with a single
// winner: a float that holds log(e^a + e^b) of two large scores is off by up to half of its last digit, which
// is 0.25 for scores of 5e6.
TEST_P(AttentionTest, HugeScoresGiveProbabilities) {
  const Case c{.samples = 1, .seq_len = 70, .heads = 2, .head_dim = 32};
  const std::int64_t width = c.heads * c.head_dim, tokens = c.samples * c.seq_len;
  for (const float size : {1e2f, 1e3f, 3e4f, 3e5f}) {  // scores up to about 5e11
    SCOPED_TRACE(size);
    std::vector<float> qkv = random(tokens * 3 * width, size);
    for (std::int64_t i = 0; i < tokens; ++i) {
      std::fill_n(qkv.begin() + (3 * i + 2) * width, width, 1.0f);  // v
    }
    std::vector<float> dout(static_cast<std::size_t>(tokens * width), 0.0f);
    const Reference reference(c, qkv, 1.0f / std::sqrt(static_cast<float>(c.head_dim)), kRng, kFirstSample);
    double elems_of_winners = 0.0;
    for (std::int64_t i = 0; i < tokens; ++i) {
      for (std::int64_t h = 0; h < c.heads; ++h) {
        if (!reference.has_one_winner(0, h, i)) continue;
        std::fill_n(dout.begin() + i * width + h * c.head_dim, c.head_dim, 1.0f);
        elems_of_winners += static_cast<double>(c.head_dim);
      }
    }
    ASSERT_GT(elems_of_winners, 0.5 * static_cast<double>(tokens * width));
    const Outputs results = same_bits_for_all_threads([&](const Rig& rig) { return run(rig, c, qkv, dout); });
    for (const float value : results[0]) EXPECT_NEAR(value, 1.0f, 1e-5f);
    double dv = 0.0;
    for (std::int64_t i = 0; i < tokens; ++i) {
      for (std::int64_t x = 0; x < width; ++x) dv += double{results[2][(3 * i + 2) * width + x]};
    }
    EXPECT_NEAR(dv / elems_of_winners, 1.0, 1e-6) << "sum of probabilities, backward";
  }
}

TEST_P(AttentionTest, LaterTokensDoNotMatter) {
  const Case c{1, 150, 2, 16};
  const std::int64_t width = c.heads * c.head_dim, elems = c.seq_len * width;
  auto qkv = random(3 * elems), dout = random(elems);
  const Outputs before = run(rig(), c, qkv, dout);
  constexpr std::int64_t kChanged = 100;
  for (std::int64_t i = kChanged * 3 * width; i < 3 * elems; ++i) qkv[i] += 1.0f;
  const Outputs after = run(rig(), c, qkv, dout);
  const std::vector<float> head_before(before[0].begin(), before[0].begin() + kChanged * width);
  const std::vector<float> head_after(after[0].begin(), after[0].begin() + kChanged * width);
  EXPECT_TRUE(same_bits(head_before, head_after));
  EXPECT_FALSE(same_bits(before[0], after[0]));
}

TEST_P(AttentionTest, NanAndInfinityPropagate) {
  for (const DType dtype : kFloatTypes) nan_and_infinity_propagate(dtype);
}

void AttentionTest::nan_and_infinity_propagate(DType dtype) {
  const Case c{.samples = 1, .seq_len = 80, .heads = 1, .head_dim = 16, .dtype = dtype};
  const std::int64_t elems = c.seq_len * c.head_dim;
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (int part = 0; part < 3; ++part) {
      auto qkv = random(3 * elems, 1.0f, dtype), dout = random(elems, 1.0f, dtype);
      qkv[70 * 3 * c.head_dim + 4] =
          0.5f;  // so that an infinite key makes a score of +infinity, not -infinity
      qkv[(70 * 3 + part) * c.head_dim + 4] = bad;
      const Outputs outputs = run(rig(), c, qkv, dout);
      bool finite = true;
      for (std::int64_t x = 0; x < c.head_dim; ++x) finite &= std::isfinite(outputs[0][70 * c.head_dim + x]);
      EXPECT_FALSE(finite) << "part " << part << " holds " << bad;
      // cuDNN multiplies masked values by zero, which turns NaN and infinity into NaN.
      if (GetParam() == DeviceType::kCuda && dtype != DType::kFloat32) continue;
      for (std::int64_t i = 0; i < 64 * c.head_dim; ++i) EXPECT_TRUE(std::isfinite(outputs[0][i]));
    }
  }
}

TRIREME_INSTANTIATE_KERNEL_TEST(AttentionTest);

}  // namespace
}  // namespace trireme::testing
