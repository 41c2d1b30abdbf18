#include <array>
#include <cmath>
#include <limits>

#include "runtime/base/error.h"
#include "tests/kernels/kernel_test.h"
#include "tests/kernels/matmul_cases.h"
#include "tests/support/sanitized.h"
#include "tests/support/temporary_folder.h"

namespace trireme::testing {
namespace {

struct Types {
  DType in, out;
};

constexpr Types kTypes[] = {{DType::kFloat32, DType::kFloat32},
                            {DType::kFloat16, DType::kFloat16},
                            {DType::kFloat16, DType::kFloat32},
                            {DType::kBFloat16, DType::kBFloat16},
                            {DType::kBFloat16, DType::kFloat32}};
constexpr DType kSixteenBit[] = {DType::kFloat16, DType::kBFloat16};

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

double exact_gelu(double x) {
  return 0.5 * x * std::erfc(-x / std::sqrt(2));
}

using Case = MatmulCase;

class MatmulTest : public KernelTest {
 protected:
  Shape a_shape(const Case& c) const { return c.ta == Transpose::kYes ? Shape{c.k, c.m} : Shape{c.m, c.k}; }
  Shape b_shape(const Case& c) const { return c.tb == Transpose::kYes ? Shape{c.n, c.k} : Shape{c.k, c.n}; }

  std::vector<double> product(const Case& c, const std::vector<float>& a, const std::vector<float>& b) const {
    std::vector<double> d(static_cast<std::size_t>(c.m * c.n));
    for (std::int64_t i = 0; i < c.m; ++i) {
      for (std::int64_t j = 0; j < c.n; ++j) {
        double sum = 0;
        for (std::int64_t l = 0; l < c.k; ++l) {
          sum += double{a[c.ta == Transpose::kYes ? l * c.m + i : i * c.k + l]} *
                 b[c.tb == Transpose::kYes ? j * c.k + l : l * c.n + j];
        }
        d[i * c.n + j] = sum;
      }
    }
    return d;
  }

  void check_product(const Case& c) {
    SCOPED_TRACE(fmt::format("{}x{}x{} {} {} {} to {}", c.m, c.n, c.k, static_cast<int>(c.ta),
                             static_cast<int>(c.tb), name(c.in), name(c.out)));
    const auto a = random(c.m * c.k, 1.0f, c.in), b = random(c.k * c.n, 1.0f, c.in);
    const Outputs out = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
      const DeviceArray d = rig.poisoned({c.m, c.n}, c.out);
      rig.run(MatmulArgs{.a = rig.upload(a_shape(c), a, c.in),
                         .b = rig.upload(b_shape(c), b, c.in),
                         .d = d,
                         .transpose_a = c.ta,
                         .transpose_b = c.tb});
      return {d.download()};
    });
    expect_close(out[0], product(c, a, b), tolerance_of(c.out, kForwardTolerance), "product");
  }

  void check_epilogues(const Case& c);
};

TEST_P(MatmulTest, AllShapesAndTransposes) {
  for (const Case& extents : {Case{1, 1, 1}, Case{1, 127, 3}, Case{127, 1, 1000}, Case{3, 1000, 127},
                              Case{65, 66, 67}, Case{300, 260, 40}, Case{1000, 127, 1}}) {
    for (const Transpose ta : {Transpose::kNo, Transpose::kYes}) {
      for (const Transpose tb : {Transpose::kNo, Transpose::kYes}) {
        for (const auto& [in, out] : kTypes) {
          check_product({extents.m, extents.n, extents.k, ta, tb, in, out});
        }
      }
    }
  }
}

// More than one block of K and more than one tile, with remainders in both.
TEST_P(MatmulTest, LongSums) {
  for (const Transpose transpose : {Transpose::kNo, Transpose::kYes}) {
    for (const auto& [in, out] : kTypes) check_product({130, 99, 2051, transpose, transpose, in, out});
  }
}

// Shapes for which the cpu backend copies operands or splits k into ranges ([Note: operand copies]).
TEST_P(MatmulTest, ShapesWithCopiedOperands) {
  const Transpose no = Transpose::kNo, yes = Transpose::kYes;
  for (const Case& c : {Case{200, 70, 45, no, yes}, Case{512, 40, 600, yes, no}, Case{50, 512, 300, yes, no},
                        Case{512, 33, 290, yes, yes}, Case{384, 128, 193, yes, no},
                        Case{2048, 96, 300, yes, no}, kWeightGradient, kFewRows}) {
    check_product(c);
  }
}

// The three products of a head whose rows of logits are apart: logits = x W^T + b, dx = dlogits W, and dW +=
// dlogits^T x with the sums of dlogits' columns. NaN between the rows must not be read.
TEST_P(MatmulTest, RowsApart) {
  constexpr std::int64_t kRows = 19, kVocab = 133, kPitch = 192, kWidth = 24;
  const Transpose no = Transpose::kNo, yes = Transpose::kYes;
  for (const DType dtype : kFloatTypes) {
    const auto x = random(kRows * kWidth, 1.0f, dtype), w = random(kVocab * kWidth, 1.0f, dtype);
    const auto bias = random(kVocab, 1.0f, dtype), dlogits = random(kRows * kVocab, 1.0f, dtype);
    std::vector<float> apart(kRows * kPitch, std::numeric_limits<float>::quiet_NaN());
    for (std::int64_t m = 0; m < kRows; ++m) {
      std::copy_n(dlogits.begin() + m * kVocab, kVocab, apart.begin() + m * kPitch);
    }
    const auto run = [&](const Rig& rig) -> Outputs {
      const DeviceArray dev_x = rig.upload({kRows, kWidth}, x, dtype);
      const DeviceArray dev_w = rig.upload({kVocab, kWidth}, w, dtype);
      const DeviceArray logits = rig.poisoned({kRows, kPitch}, dtype);
      const DeviceArray gradient = rig.upload({kRows, kPitch}, apart, dtype);
      const DeviceArray dx = rig.poisoned({kRows, kWidth}, dtype), dw = rig.poisoned({kVocab, kWidth});
      const DeviceArray dbias = rig.poisoned({kVocab});
      const auto rows_of = [&](const DeviceArray& memory) {
        TensorView view = memory;
        view.shape = {kRows, kVocab};
        return view;
      };
      rig.run(MatmulArgs{.a = dev_x,
                         .b = dev_w,
                         .d = rows_of(logits),
                         .transpose_b = yes,
                         .bias = rig.upload({kVocab}, bias, dtype),
                         .d_pitch = kPitch});
      rig.run(MatmulArgs{.a = rows_of(gradient), .b = dev_w, .d = dx, .a_pitch = kPitch});
      for (const GradientMode mode : {GradientMode::kOverwrite, GradientMode::kAccumulate}) {
        rig.run(MatmulArgs{.a = rows_of(gradient),
                           .b = dev_x,
                           .d = dw,
                           .transpose_a = yes,
                           .mode = mode,
                           .bias_grad = dbias,
                           .bias_grad_mode = mode,
                           .a_pitch = kPitch});
      }
      return {logits.download(), dx.download(), dw.download(), dbias.download()};
    };
    if (GetParam() == DeviceType::kCpu) {
      EXPECT_NE(message_of([&] { run(rig()); }).find("matmul on cpu needs contiguous rows"),
                std::string::npos);
      continue;
    }
    const Outputs out = same_bits_for_all_threads(run);
    auto expected = product({kRows, kVocab, kWidth, no, yes}, x, w);
    std::vector<float> logits;
    std::vector<double> dbias(kVocab, 0.0);
    for (std::int64_t i = 0; i < kRows * kVocab; ++i) {
      expected[i] += bias[i % kVocab];
      logits.push_back(out[0][i / kVocab * kPitch + i % kVocab]);
      dbias[i % kVocab] += 2.0 * dlogits[i];
    }
    for (std::int64_t i = 0; i < kRows * kPitch; ++i) {
      ASSERT_TRUE(i % kPitch < kVocab || std::isnan(out[0][i])) << i;
    }
    expect_close(logits, expected, tolerance_of(dtype, kForwardTolerance), "logits");
    expect_close(out[1], product({kRows, kWidth, kVocab, no, no}, dlogits, w),
                 tolerance_of(dtype, kForwardTolerance), "dx");
    auto dw = product({kVocab, kWidth, kRows, yes, no}, dlogits, x);
    for (double& value : dw) value *= 2;
    expect_close(out[2], dw, kForwardTolerance, "dw");
    expect_close(out[3], dbias, kForwardTolerance, "dbias");
  }
}

TEST_P(MatmulTest, Tf32RoundsItsInputsAndOnlyItDoes) {
  // On cards, uses extents that suit tensor cores: a library may compute small or odd ones without them.
  const Case c = GetParam() == DeviceType::kCpu ? Case{127, 70, 1100, Transpose::kNo, Transpose::kYes}
                                                : Case{256, 128, 1024, Transpose::kNo, Transpose::kYes};
  const auto a = random(c.m * c.k), b = random(c.k * c.n);
  const auto rounded_a = rounded(a, kTf32), rounded_b = rounded(b, kTf32);
  const auto run = [&](MathMode math, const std::vector<float>& left, const std::vector<float>& right) {
    return same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
      const DeviceArray d = rig.poisoned({c.m, c.n});
      rig.run(MatmulArgs{.a = rig.upload(a_shape(c), left),
                         .b = rig.upload(b_shape(c), right),
                         .d = d,
                         .transpose_b = c.tb,
                         .math = math});
      return {d.download()};
    })[0];
  };
  // Each call has its requested mode, whatever the settings of libraries and drivers.
  const auto tf32 = run(MathMode::kTf32, a, b);
  EXPECT_GT(relative_error(tf32, product(c, a, b)), 10 * kForwardTolerance) << "nothing was rounded";
  expect_close(run(MathMode::kFp32, a, b), product(c, a, b), kForwardTolerance, "product with tf32 off");
  if (GetParam() != DeviceType::kCpu) {
    // The hardware rounds differently: by half a unit of either factor.
    return expect_close(tf32, product(c, a, b), 1e-3, "product");
  }
  expect_close(tf32, product(c, rounded_a, rounded_b), kForwardTolerance, "product of rounded inputs");
  EXPECT_TRUE(same_bits(tf32, run(MathMode::kTf32, rounded_a, rounded_b)));
}

TEST_P(MatmulTest, Accumulates) {
  std::vector<Case> cases{{512, 40, 600, Transpose::kYes, Transpose::kNo}};
  if (GetParam() == DeviceType::kCpu) cases.push_back(kWeightGradient);
  for (const auto& [in, out] : kTypes)
    cases.push_back({200, 300, 50, Transpose::kYes, Transpose::kNo, in, out});
  for (const Case& c : cases) {
    SCOPED_TRACE(fmt::format("k {} {} to {}", c.k, name(c.in), name(c.out)));
    const auto a = random(c.m * c.k, 1.0f, c.in), b = random(c.k * c.n, 1.0f, c.in);
    const auto start = random(c.m * c.n, 1.0f, c.out);
    const Outputs sums = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
      const DeviceArray d = rig.upload({c.m, c.n}, start, c.out);
      rig.run(MatmulArgs{.a = rig.upload(a_shape(c), a, c.in),
                         .b = rig.upload(b_shape(c), b, c.in),
                         .d = d,
                         .transpose_a = c.ta,
                         .mode = GradientMode::kAccumulate});
      return {d.download()};
    });
    expect_close(sums[0], accumulated(product(c, a, b), start, GradientMode::kAccumulate),
                 tolerance_of(c.out, kForwardTolerance), "accumulated product");
  }
}

TEST_P(MatmulTest, SumsOfNothingAreZero) {
  if (GetParam() != DeviceType::kCpu) GTEST_SKIP() << "no model has such products";
  const std::vector<float> nothing;
  for (const MathMode math : {MathMode::kFp32, MathMode::kTf32}) {
    for (const Transpose ta : {Transpose::kNo, Transpose::kYes}) {
      const Rig r = rig();
      const DeviceArray a = r.upload(a_shape({40, 30, 0, ta}), nothing), b = r.upload({0, 30}, nothing);
      const DeviceArray d = r.poisoned({40, 30}), bias_grad = r.poisoned({40});
      MatmulArgs args{.a = a, .b = b, .d = d, .transpose_a = ta, .math = math};
      if (ta == Transpose::kYes) args.bias_grad = bias_grad;
      r.run(args);
      EXPECT_EQ(d.download(), std::vector<float>(40 * 30));
      if (ta == Transpose::kYes) {
        EXPECT_EQ(bias_grad.download(), std::vector<float>(40));
      }
    }
  }
}

// Has the bits of column_sum on every path of a product, and leaves the product's bits unchanged.
TEST_P(MatmulTest, GradientOfABias) {
  const Transpose no = Transpose::kNo, yes = Transpose::kYes;
  std::vector<Case> cases{
      {65, 128, 200, yes, no}, {33, 7, 5, yes, yes}, {40, 0, 70, yes, no}, {0, 3, 5, yes, no}};
  for (const auto& [in, out] : kTypes) cases.push_back({130, 60, 100, yes, no, in, out});
  if (GetParam() == DeviceType::kCpu) {  // the other paths of [Note: operand copies]
    cases.push_back({512, 40, 600, yes, no});
    cases.push_back({512, 260, 300, yes, no});
    cases.push_back(kWeightGradient);
    cases.push_back({130, 60, 1100, yes, no, DType::kFloat32, DType::kFloat32, MathMode::kTf32});
  }
  for (const Case& c : cases) {
    SCOPED_TRACE(fmt::format("{}x{}x{} {} to {}", c.m, c.n, c.k, name(c.in), name(c.out)));
    const auto a = random(c.m * c.k, 1.0f, c.in), b = random(c.k * c.n, 1.0f, c.in), start = random(c.m);
    const auto run = [&](bool together, GradientMode mode) {
      return same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
        const DeviceArray d = rig.poisoned({c.m, c.n}, c.out);
        const DeviceArray sum =
            mode == GradientMode::kOverwrite ? rig.poisoned({c.m}) : rig.upload({c.m}, start);
        const DeviceArray on_device = rig.upload(a_shape(c), a, c.in);
        const DeviceArray other = rig.upload(b_shape(c), b, c.in);
        MatmulArgs args{.a = on_device, .b = other, .d = d, .transpose_a = c.ta, .transpose_b = c.tb};
        args.math = c.math;
        if (together) {
          args.bias_grad = sum;
          args.bias_grad_mode = mode;
        }
        rig.run(args);
        if (!together) rig.run(ColumnSumArgs{.x = on_device, .out = sum, .mode = mode});
        return {d.download(), sum.download()};
      });
    };
    for (const GradientMode mode :
         {GradientMode::kOverwrite, GradientMode::kAccumulate, GradientMode::kIgnore}) {
      const Outputs together = run(true, mode), apart = run(false, mode);
      EXPECT_TRUE(same_bits(together[0], apart[0])) << "product";
      EXPECT_TRUE(same_bits(together[1], apart[1])) << "gradient of the bias";
    }
  }
}

// Every combination of bias, activation, stored pre-activation and residual, the last also in place.
TEST_P(MatmulTest, Epilogues) {
  for (const auto& [m, n, k] :
       {std::array<std::int64_t, 3>{1, 1, 3}, {127, 200, 30}, {530, 200, 7}, {65, 800, 7}, {300, 160, 130}}) {
    check_epilogues({m, n, k, Transpose::kNo, Transpose::kYes});
  }
  if (GetParam() == DeviceType::kCpu) check_epilogues(kDeep);
  for (const DType dtype : kSixteenBit) {
    for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{1, 1, 3}, {67, 200, 30}, {65, 127, 7}}) {
      check_epilogues({m, n, k, Transpose::kNo, Transpose::kYes, dtype, dtype});
    }
  }
}

void MatmulTest::check_epilogues(const Case& c) {
  const DType dtype = c.out;
  const auto a = random(c.m * c.k, 1.0f, c.in), b = random(c.k * c.n, 1.0f, c.in);
  const auto bias = random(c.n, 1.0f, dtype), residual = random(c.m * c.n, 1.0f, dtype);
  const std::vector<double> bare = product(c, a, b);
  for (int bits = 0; bits < 64; bits += kSanitized ? 5 : 1) {
    const bool with_bias = bits & 1, with_gelu = bits & 2, with_pre = bits & 4, with_residual = bits & 8;
    const bool in_place = bits & 16, exact = bits & 32;
    if ((in_place && !with_residual) || (exact && !with_gelu)) continue;
    SCOPED_TRACE(fmt::format("{} {}x{}x{} bias {} gelu {} pre {} residual {} in place {} exact {}",
                             name(dtype), c.m, c.n, c.k, with_bias, with_gelu, with_pre, with_residual,
                             in_place, exact));
    std::vector<double> pre = bare, expected = bare;
    for (std::int64_t i = 0; i < c.m * c.n; ++i) {
      pre[i] += with_bias ? bias[i % c.n] : 0.0f;
      const double activated = exact ? exact_gelu(pre[i]) : with_gelu ? gelu(pre[i]) : pre[i];
      expected[i] = activated + (with_residual ? residual[i] : 0.0f);
    }
    const Outputs out = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
      const Shape all{c.m, c.n};
      const DeviceArray d = in_place ? rig.upload(all, residual, dtype) : rig.poisoned(all, dtype);
      const DeviceArray kept = rig.poisoned(all, dtype), other = rig.upload(all, residual, dtype);
      const DeviceArray device_bias = rig.upload({c.n}, bias, dtype);
      const DeviceArray device_a = rig.upload(a_shape(c), a, c.in),
                        device_b = rig.upload(b_shape(c), b, c.in);
      MatmulArgs args{.a = device_a, .b = device_b, .d = d};
      args.transpose_b = Transpose::kYes;
      if (with_bias) args.bias = device_bias;
      if (with_gelu) args.activation = exact ? Activation::kGelu : Activation::kGeluTanh;
      if (with_pre) args.pre_activation = kept;
      if (with_residual) args.residual = in_place ? d.view() : other.view();
      rig.run(args);
      return {d.download(), kept.download()};
    });
    const Tolerance tolerance =
        tolerance_of(dtype, kForwardTolerance).for_terms(static_cast<double>(c.k + 2), expected.size());
    expect_close(out[0], expected, tolerance, "d");
    if (with_pre) expect_close(out[1], pre, tolerance, "pre_activation");
  }
}

TEST_P(MatmulTest, Tanh) {
  const std::int64_t m = 37, n = 33, k = 5;
  for (const DType dtype : kFloatTypes) {
    const auto a = random(m * k, 1.0f, dtype), b = random(n * k, 1.0f, dtype), bias = random(n, 1.0f, dtype);
    const Outputs out = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
      const DeviceArray d = rig.poisoned({m, n}, dtype), pre = rig.poisoned({m, n}, dtype);
      rig.run(MatmulArgs{.a = rig.upload({m, k}, a, dtype),
                         .b = rig.upload({n, k}, b, dtype),
                         .d = d,
                         .transpose_b = Transpose::kYes,
                         .bias = rig.upload({n}, bias, dtype),
                         .activation = Activation::kTanh,
                         .pre_activation = pre});
      return {d.download(), pre.download()};
    });
    std::vector<double> expected(static_cast<std::size_t>(m * n));
    for (std::int64_t i = 0; i < m * n; ++i) {
      double sum = bias[i % n];
      for (std::int64_t x = 0; x < k; ++x) sum += double{a[i / n * k + x]} * b[i % n * k + x];
      expected[i] = std::tanh(sum);
    }
    expect_close(out[0], expected, tolerance_of(dtype, kForwardTolerance).for_terms(k + 1.0, expected.size()),
                 "tanh");
  }
}

TEST_P(MatmulTest, ResidualInPlaceChangesNoBits) {
  const std::int64_t m = 130, n = 70, k = 50;
  const auto a = random(m * k), b = random(k * n), bias = random(n), residual = random(m * n);
  for (const Activation activation : {Activation::kNone, Activation::kGeluTanh}) {
    const Rig r = rig();
    const DeviceArray da = r.upload({m, k}, a), db = r.upload({k, n}, b), dbias = r.upload({n}, bias);
    const DeviceArray apart = r.poisoned({m, n}), in_place = r.upload({m, n}, residual);
    const DeviceArray other = r.upload({m, n}, residual);
    MatmulArgs args{.a = da, .b = db, .d = apart, .bias = dbias, .activation = activation, .residual = other};
    r.run(args);
    args.d = in_place;
    args.residual = in_place;
    r.run(args);
    EXPECT_TRUE(same_bits(apart.download(), in_place.download()));
  }
}

// oneDNN must not use the threads that the calling thread's settings would allow.
TEST_P(MatmulTest, OneThreadMeansOne) {
  const std::int64_t m = 40, n = 50, k = 5000;
  const auto a = random(m * k), b = random(k * n);
  const auto run = [&](const Rig& rig, const KernelContext& exec) {
    const DeviceArray d = rig.poisoned({m, n});
    rig->run(exec, MatmulArgs{.a = rig.upload({m, k}, a), .b = rig.upload({k, n}, b), .d = d});
    return d.download();
  };
  const Rig one = rig(1);
  const auto expected = run(one, one.exec());
  const Rig four = rig(4);
  KernelContext exec = four.exec();
  exec.num_threads = 1;
  EXPECT_TRUE(same_bits(run(four, exec), expected));
}

TEST_P(MatmulTest, NanAndInfinityPropagate) {
  const std::int64_t m = 70, n = 90, k = 33;
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    auto a = random(m * k), b = random(k * n);
    a[5 * k + 7] = bad;
    for (const Activation activation : {Activation::kNone, Activation::kGeluTanh}) {
      const Rig r = rig();
      const DeviceArray da = r.upload({m, k}, a), db = r.upload({k, n}, b), d = r.poisoned({m, n});
      r.run(MatmulArgs{.a = da, .b = db, .d = d, .activation = activation});
      const auto out = d.download();
      for (std::int64_t i = 0; i < m * n; ++i) {
        const bool finite_row = i / n != 5;
        if (finite_row) {
          EXPECT_TRUE(std::isfinite(out[i])) << i;
        } else if (activation == Activation::kNone || std::isnan(bad)) {
          EXPECT_FALSE(std::isfinite(out[i])) << i;
        }
      }
    }
  }
}

// A sum of finite products beyond fp16's range is infinite in fp16, and finite in fp32 and bf16.
TEST_P(MatmulTest, OverflowBecomesInfinite) {
  const std::int64_t m = 5, n = 70, k = 64;
  for (const auto& [in, out] : kTypes) {
    const Rig r = rig();
    std::vector<float> a(m * k, 1.0f);
    for (std::int64_t i = 0; i < k; ++i) a[2 * k + i] = 1024.0f;
    const DeviceArray d = r.poisoned({m, n}, out);
    r.run(MatmulArgs{
        .a = r.upload({m, k}, a, in), .b = r.upload({k, n}, std::vector<float>(k * n, -2.0f), in), .d = d});
    const auto values = d.download();
    for (std::int64_t i = 0; i < m * n; ++i) {
      const float exact = i / n == 2 ? -131072.0f : -128.0f;
      ASSERT_EQ(values[i], rounded(exact, out)) << name(in) << " to " << name(out) << " " << i;
    }
  }
}

TEST_P(MatmulTest, NanAndInfinityPropagateInSixteenBits) {
  const std::int64_t m = 70, n = 90, k = 33;
  for (const DType dtype : kSixteenBit) {
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      auto a = random(m * k, 1.0f, dtype), b = random(k * n, 1.0f, dtype);
      a[5 * k + 7] = bad;
      const Rig r = rig();
      const DeviceArray d = r.poisoned({m, n}, dtype);
      r.run(MatmulArgs{.a = r.upload({m, k}, a, dtype), .b = r.upload({k, n}, b, dtype), .d = d});
      const auto out = d.download();
      for (std::int64_t i = 0; i < m * n; ++i) EXPECT_EQ(std::isfinite(out[i]), i / n != 5) << i;
    }
  }
}

// On every backend, an operand of another type is an error of the caller, and the message names it.
TEST_P(MatmulTest, RefusesOperandsOfTwoTypes) {
  const Rig r = rig();
  const DeviceArray d = r.poisoned({2, 2}), a = r.poisoned({2, 2}, DType::kFloat16);
  const DeviceArray b = r.poisoned({2, 2}, DType::kBFloat16);
  try {
    r.run(MatmulArgs{.a = a, .b = b, .d = d});
    FAIL() << "fp16 times bf16 was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    const std::string text = error.what();
    for (const char* word : {"matmul", name(GetParam()).data(), "fp16", "bf16"}) {
      EXPECT_NE(text.find(word), std::string::npos) << text;
    }
  }
  EXPECT_THROW(r.run(MatmulArgs{.a = d, .b = d, .d = a}), Error);
  EXPECT_THROW(r.run(MatmulArgs{.a = a, .b = a, .d = b}), Error);
  EXPECT_THROW(r.run(MatmulArgs{.a = a, .b = a, .d = a, .bias = b}), Error);
}

TRIREME_INSTANTIATE_KERNEL_TEST(MatmulTest);

}  // namespace
}  // namespace trireme::testing
