// Every instruction set of this machine must compute the same as the newest one, which the conformance suite
// compares with double.
#include "kernels/cpu/numerics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace trireme::cpu {
namespace {

using Floats = std::vector<float>;

constexpr double kTolerance = 1e-5;
constexpr std::int64_t kRows = 7, kCols = 131;

Floats random(std::int64_t n, float factor = 1.0f) {
  std::mt19937 generator(static_cast<std::mt19937::result_type>(n));
  std::uniform_real_distribution<float> uniform(-factor, factor);
  Floats values(static_cast<std::size_t>(n));
  for (float& value : values) value = uniform(generator);
  return values;
}

/// The results of one table for fixed inputs.
struct Results {
  Floats gelu, gelu_bwd, swiglu, swiglu_bwd, dropout, norms, y, statistics, dx, dgamma, logits, losses, adamw,
      lion, sgd, out, dqkv, lstm, dgates;

  std::vector<const Floats*> all() const {
    return {&gelu,   &gelu_bwd, &swiglu, &swiglu_bwd, &dropout, &norms, &y,    &statistics, &dx,    &dgamma,
            &logits, &losses,   &adamw,  &lion,       &sgd,     &out,   &dqkv, &lstm,       &dgates};
  }
};

void run_elementwise(const Numerics& n, Results& r) {
  const Floats x = random(kRows * kCols, 4.0f), dy = random(kRows * kCols), bias = random(kCols);
  r.gelu = x;
  n.activation->epilogue({.d = r.gelu.data(),
                          .rows = kRows,
                          .cols = kCols,
                          .pitch = kCols,
                          .bias = bias.data(),
                          .residual = dy.data(),
                          .residual_pitch = kCols,
                          .activation = Activation::kGeluTanh});
  r.gelu_bwd.resize(x.size());
  n.activation->gelu_tanh_bwd(dy.data(), x.data(), r.gelu_bwd.data(), kRows * kCols);
  r.swiglu.resize(x.size());
  n.activation->swiglu(x.data(), dy.data(), r.swiglu.data(), kRows * kCols);
  r.swiglu_bwd.resize(2 * x.size());
  n.activation->swiglu_bwd(dy.data(), x.data(), dy.data(), r.swiglu_bwd.data(),
                           r.swiglu_bwd.data() + x.size(), kRows * kCols);
  r.dropout.resize(x.size());
  n.elementwise->dropout({.x = x.data(),
                          .residual = dy.data(),
                          .y = r.dropout.data(),
                          .n = kRows * kCols,
                          .first_elem = 40,
                          .sample = 3,
                          .p = 0.3f,
                          .key = {{1, 2}, 3, 4}});
  r.norms.resize(3);
  n.elementwise->squared_norm_blocks(random(3 * 1024).data(), r.norms.data(), 3);
}

void run_rows(const Numerics& n, Results& r) {
  const Floats x = random(kRows * kCols, 4.0f), dy = random(kRows * kCols), gamma = random(kCols);
  r.y.resize(x.size());
  r.statistics.resize(2 * kRows);
  float *mean = r.statistics.data(), *rstd = mean + kRows;
  n.layer_norm->fwd({.x = x.data(),
                     .gamma = gamma.data(),
                     .beta = gamma.data(),
                     .y = r.y.data(),
                     .mean = mean,
                     .rstd = rstd,
                     .rows = kRows,
                     .cols = kCols,
                     .epsilon = 1e-5f});
  r.dx.resize(x.size());
  r.dgamma.resize(2 * kCols);
  n.layer_norm->bwd({.dy = dy.data(),
                     .x = x.data(),
                     .gamma = gamma.data(),
                     .mean = mean,
                     .rstd = rstd,
                     .dx_add = x.data(),
                     .dx = r.dx.data(),
                     .dgamma = r.dgamma.data(),
                     .dbeta = r.dgamma.data() + kCols,
                     .rows = kRows,
                     .cols = kCols});
  r.logits = x;
  for (std::int64_t m = 0; m < kRows; ++m) {
    r.losses.push_back(n.cross_entropy->row(r.logits.data() + m * kCols, kCols, 5, 0.5f, true));
  }
}

void run_optimizers(const Numerics& n, Results& r) {
  const Floats grad = random(kCols);
  Floats exp_avg_sq(kCols, 0.25f), buffer = random(kCols);
  r.adamw = random(2 * kCols);  // param, then exp_avg
  n.optimizer->adamw({.param = r.adamw.data(),
                      .exp_avg = r.adamw.data() + kCols,
                      .exp_avg_sq = exp_avg_sq.data(),
                      .grad = grad.data(),
                      .n = kCols,
                      .clip = 0.5f,
                      .beta1 = 0.9f,
                      .beta2 = 0.95f,
                      .epsilon = 1e-8f,
                      .decay = 1e-3f,
                      .step_size = 0.1f,
                      .rsqrt_bias2 = 1.5f});
  r.lion = random(2 * kCols);
  n.optimizer->lion({.param = r.lion.data(),
                     .exp_avg = r.lion.data() + kCols,
                     .grad = grad.data(),
                     .n = kCols,
                     .clip = 0.5f,
                     .lr = 0.1f,
                     .beta1 = 0.9f,
                     .beta2 = 0.99f,
                     .decay = 1e-2f});
  r.sgd = random(kCols);
  n.optimizer->sgd({.param = r.sgd.data(),
                    .momentum_buffer = buffer.data(),
                    .grad = grad.data(),
                    .n = kCols,
                    .clip = 0.5f,
                    .lr = 0.1f,
                    .momentum = 0.9f,
                    .weight_decay = 0.1f,
                    .first_step = false,
                    .nesterov = true});
}

void run_attention(const Numerics& n, Results& r) {
  constexpr std::int64_t kSeqLen = 150, kHeadDim = 20, kPitch = 3 * kHeadDim;
  const Floats qkv = random(kSeqLen * kPitch, 2.0f), dout = random(kSeqLen * kHeadDim);
  r.out.resize(dout.size());
  r.dqkv.resize(qkv.size());
  Floats lse(kSeqLen);
  const AttentionHead head{.element = Element::kFp32,
                           .q = qkv.data(),
                           .k = qkv.data() + kHeadDim,
                           .v = qkv.data() + 2 * kHeadDim,
                           .q_pitch = kPitch,
                           .kv_pitch = kPitch,
                           .out = r.out.data(),
                           .out_pitch = kHeadDim,
                           .num_queries = kSeqLen,
                           .num_keys = kSeqLen,
                           .head_dim = kHeadDim,
                           .scale = 0.25f,
                           .causal = true,
                           .dropout_p = 0.2f,
                           .first_elem = 6,
                           .sample = 9,
                           .key = {{5, 6}, 7, 8}};
  Floats fwd_scratch(n.attention_fwd->scratch_floats(kSeqLen, kHeadDim));
  n.attention_fwd->run({.head = head, .out = r.out.data(), .lse = lse.data(), .scratch = fwd_scratch.data()});
  Floats bwd_scratch(n.attention_bwd->scratch_floats(kSeqLen, kHeadDim));
  n.attention_bwd->run({.head = head,
                        .group = 1,
                        .dout = dout.data(),
                        .lse = lse.data(),
                        .dq = r.dqkv.data(),
                        .dk = r.dqkv.data() + kHeadDim,
                        .dv = r.dqkv.data() + 2 * kHeadDim,
                        .scratch = bwd_scratch.data()});
}

void run_lstm(const Numerics& n, Results& r) {
  const Floats x = random(4 * kCols, 4.0f), bias = random(4 * kCols + 1), c = random(kCols, 2.0f);
  r.lstm.resize(6 * kCols);  // gates, c, h
  float *const gates = r.lstm.data(), *const cells = gates + 4 * kCols, *const h = cells + kCols;
  n.lstm->fwd({.x = {x.data(), kCols},
               .product = {bias.data() + 1, kCols},
               .bias = {bias.data(), kCols},
               .c_before = c.data(),
               .gates = {gates, kCols},
               .c = cells,
               .h = h,
               .units = kCols});
  r.dgates = random(5 * kCols);  // of gates, then of cells
  n.lstm->bwd({.gates = {gates, kCols},
               .c = cells,
               .c_before = c.data(),
               .dh = x.data(),
               .dh_next = bias.data(),
               .dc = r.dgates.data() + 4 * kCols,
               .dgates = {r.dgates.data(), kCols},
               .units = kCols});
}

Results run(const Numerics& n) {
  Results r;
  run_lstm(n, r);
  run_elementwise(n, r);
  run_rows(n, r);
  run_optimizers(n, r);
  run_attention(n, r);
  return r;
}

/// The bits, with one value for all NaN.
std::vector<std::uint32_t> bits(const Floats& values) {
  std::vector<std::uint32_t> bits(values.size());
  std::memcpy(bits.data(), values.data(), values.size() * sizeof(float));
  for (std::size_t i = 0; i < bits.size(); ++i) {
    if (std::isnan(values[i])) bits[i] = 0x7FC00000;
  }
  return bits;
}

double exact_sigmoid_of_gelu(double x) {
  return 1 / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

// Not 1 + tanh, which loses all digits for negative x; the approximation keeps them.
double exact_gelu(double x) {
  return x * exact_sigmoid_of_gelu(x);
}

double exact_gelu_derivative(double x) {
  const double s = exact_sigmoid_of_gelu(x);
  return s + x * s * (1 - s) * 2 * std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}

TEST(NumericsTest, GeluKeepsRelativeAccuracy) {
  Floats x;
  for (float value = -10.0f; value < 20.0f; value += 1e-3f) x.push_back(value);
  const auto n = static_cast<std::int64_t>(x.size());
  const Floats dy(x.size(), 1.0f);
  for (const Numerics* const* table = supported_numerics(); *table != nullptr; ++table) {
    SCOPED_TRACE((*table)->isa);
    Floats y = x, dx(x.size());
    (*table)->activation->epilogue(
        {.d = y.data(), .rows = 1, .cols = n, .pitch = n, .activation = Activation::kGeluTanh});
    (*table)->activation->gelu_tanh_bwd(dy.data(), x.data(), dx.data(), n);
    for (std::size_t i = 0; i < x.size(); ++i) {
      // Allows for the round-off of the exponent: |2 u| grows with x^3.
      const double relative = x[i] < -5.0f ? 2e-5 : 2e-6;
      EXPECT_NEAR(y[i], exact_gelu(x[i]), relative * std::fabs(exact_gelu(x[i]))) << x[i];
      EXPECT_NEAR(dx[i], exact_gelu_derivative(x[i]), 5e-7) << x[i];
    }
  }
}

TEST(NumericsTest, GeluAtItsEnds) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Floats x{100.0f, -100.0f, 1e30f, -1e30f, 3e38f, -3e38f, 0.0f};
  const Floats expected{100.0f, 0.0f, 1e30f, 0.0f, 3e38f, 0.0f, 0.0f};
  const Floats slopes{1.0f, 0.0f, 1.0f, 0.0f, 1.0f, 0.0f, 0.5f}, dy(x.size(), 1.0f);
  const auto n = static_cast<std::int64_t>(x.size());
  for (const Numerics* const* table = supported_numerics(); *table != nullptr; ++table) {
    SCOPED_TRACE((*table)->isa);
    const ActivationNumerics& activation = *(*table)->activation;
    Floats y = x, dx(x.size());
    activation.epilogue(
        {.d = y.data(), .rows = 1, .cols = n, .pitch = n, .activation = Activation::kGeluTanh});
    activation.gelu_tanh_bwd(dy.data(), x.data(), dx.data(), n);
    EXPECT_EQ(y, expected);
    EXPECT_EQ(dx, slopes);
    Floats beyond{kInfinity, std::numeric_limits<float>::quiet_NaN()};
    activation.epilogue(
        {.d = beyond.data(), .rows = 1, .cols = 2, .pitch = 2, .activation = Activation::kGeluTanh});
    EXPECT_EQ(beyond[0], kInfinity);
    EXPECT_TRUE(std::isnan(beyond[1]));
  }
}

TEST(NumericsTest, TanhKeepsRelativeAccuracy) {
  Floats x{1e-30f, -1e-6f, 100.0f, -1e30f};
  for (float value = -12.0f; value < 12.0f; value += 1e-3f) x.push_back(value);
  const auto n = static_cast<std::int64_t>(x.size());
  const Floats dy(x.size(), 1.0f);
  for (const Numerics* const* table = supported_numerics(); *table != nullptr; ++table) {
    SCOPED_TRACE((*table)->isa);
    Floats y = x, dx(x.size());
    (*table)->activation->epilogue(
        {.d = y.data(), .rows = 1, .cols = n, .pitch = n, .activation = Activation::kTanh});
    (*table)->activation->tanh_bwd(dy.data(), x.data(), dx.data(), n);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double exact = std::tanh(double{x[i]}), cosh = std::cosh(std::min(50.0, std::fabs(double{x[i]})));
      EXPECT_NEAR(y[i], exact, 3e-7 * std::fabs(exact)) << x[i];
      // Denormal results may be 0.
      EXPECT_NEAR(dx[i], 1 / (cosh * cosh), 2e-6 / (cosh * cosh) + 1.2e-38) << x[i];
    }
  }
}

TEST(NumericsTest, ExactGelu) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Floats x;
  for (float value = -13.0f; value < 20.0f; value += 1e-3f) x.push_back(value);
  const std::size_t num_values = x.size();
  for (const float end : {100.0f, -100.0f, 3e38f, -3e38f, 0.0f, -0.0f}) x.push_back(end);
  const auto n = static_cast<std::int64_t>(x.size());
  const Floats dy(x.size(), 1.0f), slopes{1.0f, 0.0f, 1.0f, 0.0f, 0.5f, 0.5f};
  const auto run = [](const Numerics& table, Floats& y, std::int64_t cols) {
    table.activation->epilogue(
        {.d = y.data(), .rows = 1, .cols = cols, .pitch = cols, .activation = Activation::kGelu});
  };
  for (const Numerics* const* table = supported_numerics(); *table != nullptr; ++table) {
    SCOPED_TRACE((*table)->isa);
    Floats y = x, dx(x.size());
    run(**table, y, n);
    (*table)->activation->gelu_bwd(dy.data(), x.data(), dx.data(), n);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double below = 0.5 * std::erfc(-static_cast<double>(x[i]) / std::sqrt(2.0));
      // Allows for the round-off of the exponent, x^2 / 2.
      const double relative = x[i] < -5.0f ? 1e-5 : 2e-6;
      ASSERT_NEAR(y[i], x[i] * below, relative * std::fabs(x[i] * below)) << x[i];
      const double bell = std::exp(-0.5 * static_cast<double>(x[i]) * x[i]) / std::sqrt(2 * M_PI);
      ASSERT_NEAR(dx[i], below + x[i] * bell, 5e-7) << x[i];
      if (i >= num_values) {
        EXPECT_EQ(dx[i], slopes[i - num_values]) << x[i];
      }
    }
    Floats beyond{kInfinity, std::numeric_limits<float>::quiet_NaN()};
    run(**table, beyond, 2);
    EXPECT_EQ(beyond[0], kInfinity);
    EXPECT_TRUE(std::isnan(beyond[1]));
    // A single value gives the same bits as in a vector.
    for (std::size_t i = 0; i < x.size(); i += 997) {
      Floats alone{x[i]};
      run(**table, alone, 1);
      EXPECT_EQ(bits(alone)[0], bits({y[i]})[0]) << x[i];
    }
  }
}

// The tile's columns depend on how a product is split, so partial vectors must give the same bits.
TEST(NumericsTest, GeluIsTheSameInVectorsAndAlone) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Floats x = random(kCols, 12.0f);
  const Floats ends{0.0f,  -0.0f,  100.0f, -100.0f,   5.2f,       -13.1f,
                    1e30f, -1e30f, -10.3f, kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()};
  std::copy(ends.begin(), ends.end(), x.begin());
  for (const Numerics* const* n = supported_numerics(); *n != nullptr; ++n) {
    Floats row = x, alone = x;
    (*n)->activation->epilogue({.d = row.data(),
                                .rows = 1,
                                .cols = kCols,
                                .pitch = kCols,
                                .bias = nullptr,
                                .activation = Activation::kGeluTanh});
    for (float& value : alone) {
      (*n)->activation->epilogue({.d = &value,
                                  .rows = 1,
                                  .cols = 1,
                                  .pitch = 1,
                                  .bias = nullptr,
                                  .activation = Activation::kGeluTanh});
    }
    EXPECT_EQ(bits(row), bits(alone)) << (*n)->isa;
    // Rows that use all group sizes of vectors, and partial vectors.
    const Floats dy = random(kCols, 1.0f);
    for (const std::int64_t cols : {1, 15, 16, 31, 32, 64, 113, 127, 128}) {
      Floats part(x.begin(), x.begin() + cols), slope(x), slope_of_part(part);
      (*n)->activation->epilogue({.d = part.data(),
                                  .rows = 1,
                                  .cols = cols,
                                  .pitch = cols,
                                  .bias = nullptr,
                                  .activation = Activation::kGeluTanh});
      EXPECT_EQ(bits(part), bits(Floats(alone.begin(), alone.begin() + cols))) << (*n)->isa << " " << cols;
      (*n)->activation->gelu_tanh_bwd(dy.data(), x.data(), slope.data(), kCols);
      (*n)->activation->gelu_tanh_bwd(dy.data(), x.data(), slope_of_part.data(), cols);
      slope.resize(static_cast<std::size_t>(cols));
      EXPECT_EQ(bits(slope_of_part), bits(slope)) << (*n)->isa << " " << cols;
    }
  }
}

// The units of a piece depend on the number of threads.
TEST(NumericsTest, LstmCellsAreTheSameInVectorsAndAlone) {
  for (const Numerics* const* n = supported_numerics(); *n != nullptr; ++n) {
    Results all, alone;
    run_lstm(**n, all);
    alone.lstm.resize(all.lstm.size());
    const Floats x = random(4 * kCols, 4.0f), bias = random(4 * kCols + 1), c = random(kCols, 2.0f);
    alone.dgates = random(5 * kCols);
    for (std::int64_t u = 0; u < kCols; ++u) {
      float* const gates = alone.lstm.data() + u;
      (*n)->lstm->fwd({.x = {x.data() + u, kCols},
                       .product = {bias.data() + 1 + u, kCols},
                       .bias = {bias.data() + u, kCols},
                       .c_before = c.data() + u,
                       .gates = {gates, kCols},
                       .c = gates + 4 * kCols,
                       .h = gates + 5 * kCols,
                       .units = 1});
      (*n)->lstm->bwd({.gates = {gates, kCols},
                       .c = gates + 4 * kCols,
                       .c_before = c.data() + u,
                       .dh = x.data() + u,
                       .dh_next = bias.data() + u,
                       .dc = alone.dgates.data() + 4 * kCols + u,
                       .dgates = {alone.dgates.data() + u, kCols},
                       .units = 1});
    }
    EXPECT_EQ(bits(all.lstm), bits(alone.lstm)) << (*n)->isa;
    EXPECT_EQ(bits(all.dgates), bits(alone.dgates)) << (*n)->isa;
  }
}

TEST(NumericsTest, TheNewestIsChosen) {
  ASSERT_NE(supported_numerics()[0], nullptr);
  EXPECT_EQ(&numerics(), supported_numerics()[0]);
}

TEST(NumericsTest, InstructionSetsAgree) {
  const Results newest = run(numerics());
  int compared = 0;
  for (const Numerics* const* other = supported_numerics() + 1; *other != nullptr; ++other, ++compared) {
    const Results older = run(**other);
    for (std::size_t i = 0; i < newest.all().size(); ++i) {
      const Floats &a = *newest.all()[i], &b = *older.all()[i];
      ASSERT_EQ(a.size(), b.size());
      double difference = 0, norm = 0;
      for (std::size_t e = 0; e < a.size(); ++e) {
        difference += std::pow(double{a[e]} - b[e], 2);
        norm += std::pow(double{a[e]}, 2);
      }
      EXPECT_TRUE(std::sqrt(difference / norm) < kTolerance)
          << (*other)->isa << " against " << numerics().isa << ", result " << i << ": "
          << std::sqrt(difference / norm);
    }
  }
  if (compared == 0) GTEST_SKIP() << "this machine has one instruction set only: " << numerics().isa;
}

// Conversions on every instruction set. The last table uses the software conversion of the oldest set.
class ConversionTest : public ::testing::TestWithParam<Element> {
 protected:
  template <class Run>
  void expect_same_bits(const Run& run) {
    const auto newest = run(numerics());
    for (const Numerics* const* other = supported_numerics() + 1; *other != nullptr; ++other) {
      const auto older = run(**other);
      ASSERT_EQ(std::memcmp(newest.data(), older.data(), newest.size() * sizeof newest[0]), 0)
          << (*other)->isa << " against " << numerics().isa;
    }
  }
};

// An odd number of values, so that vectors have a tail. Includes NaN with all kinds of payloads.
TEST_P(ConversionTest, ReadsAreTheSameBits) {
  if (GetParam() == Element::kTf32) {
    expect_same_bits([&](const Numerics& n) {
      std::vector<std::uint32_t> words(1 << 21), out(words.size() - 1);
      for (std::size_t i = 0; i < words.size(); ++i) words[i] = static_cast<std::uint32_t>(i * 2039);
      n.cast->read(words.data(), GetParam(), reinterpret_cast<float*>(out.data()),
                   static_cast<std::int64_t>(out.size()));
      return out;
    });
    return;
  }
  expect_same_bits([&](const Numerics& n) {
    std::vector<std::uint16_t> bits(65537);
    for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(i);
    std::vector<std::uint32_t> out(bits.size());
    n.cast->read(bits.data(), GetParam(), reinterpret_cast<float*>(out.data()), 65537);
    return out;
  });
}

// Rows and columns that are not multiples of a vector, rows longer than one piece, and larger pitches.
TEST_P(ConversionTest, TransposedReadsAreReads) {
  constexpr std::int64_t kRead = 37, kLength = 531, kFromPitch = 540, kToPitch = 45;
  const Floats values = random(kRead * kFromPitch, 3.0f);
  for (const Numerics* const* n = supported_numerics(); *n != nullptr; ++n) {
    const CastNumerics& cast = *(*n)->cast;
    std::vector<std::uint32_t> stored(values.size());  // large enough for every element
    cast.write(values.data(), GetParam(), stored.data(), static_cast<std::int64_t>(values.size()));
    Floats plain(values.size()), transposed(kLength * kToPitch, -7.0f);
    cast.read(stored.data(), GetParam(), plain.data(), static_cast<std::int64_t>(plain.size()));
    cast.read_transposed({.x = stored.data(),
                          .element = GetParam(),
                          .x_pitch = kFromPitch,
                          .rows = kRead,
                          .cols = kLength,
                          .y = transposed.data(),
                          .y_pitch = kToPitch});
    for (std::int64_t j = 0; j < kLength; ++j) {
      for (std::int64_t i = 0; i < kToPitch; ++i) {
        const float expected = i < kRead ? plain[i * kFromPitch + j] : -7.0f;
        ASSERT_EQ(transposed[j * kToPitch + i], expected) << (*n)->isa << " " << i << " " << j;
      }
    }
  }
}

TEST_P(ConversionTest, WritesAreTheSameBits) {
  if (GetParam() == Element::kTf32) GTEST_SKIP() << "tf32 is a conversion of inputs";
  expect_same_bits([&](const Numerics& n) {
    // Every exponent and sign, with ties and their neighbours at every mantissa length.
    std::vector<std::uint32_t> words;
    for (std::uint32_t top = 0; top < 0x20000; ++top) {
      for (const std::uint32_t low : {0u, 1u, 0x0FFFu, 0x1000u, 0x1001u, 0x4FFFu, 0x7FFFu})
        words.push_back(top << 15 | low);
    }
    std::vector<std::uint16_t> out(words.size());
    n.cast->write(reinterpret_cast<const float*>(words.data()), GetParam(), out.data(),
                  static_cast<std::int64_t>(words.size()));
    return out;
  });
}

INSTANTIATE_TEST_SUITE_P(Elements, ConversionTest,
                         ::testing::Values(Element::kFp16, Element::kBf16, Element::kTf32));

}  // namespace
}  // namespace trireme::cpu
