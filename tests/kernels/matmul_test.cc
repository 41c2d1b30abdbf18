#include <array>
#include <cmath>
#include <limits>

#include "runtime/base/error.h"
#include "tests/kernels/kernel_test.h"

namespace trireme::testing {
namespace {

struct Case {
  std::int64_t m, n, k;
  Transpose ta = Transpose::kNo, tb = Transpose::kNo;
};

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

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
};

TEST_P(MatmulTest, AllShapesAndTransposes) {
  for (const Case& extents : {Case{1, 1, 1}, Case{1, 127, 3}, Case{127, 1, 1000}, Case{3, 1000, 127},
                              Case{65, 66, 67}, Case{300, 260, 40}, Case{1000, 127, 1}}) {
    for (const Transpose ta : {Transpose::kNo, Transpose::kYes}) {
      for (const Transpose tb : {Transpose::kNo, Transpose::kYes}) {
        const Case c{extents.m, extents.n, extents.k, ta, tb};
        SCOPED_TRACE(
            fmt::format("{}x{}x{} {} {}", c.m, c.n, c.k, static_cast<int>(ta), static_cast<int>(tb)));
        const auto a = random(c.m * c.k), b = random(c.k * c.n);
        const Outputs out = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
          const DeviceArray d = rig.poisoned({c.m, c.n});
          rig->matmul(rig.exec(), {.a = rig.upload(a_shape(c), a),
                                   .b = rig.upload(b_shape(c), b),
                                   .d = d,
                                   .transpose_a = ta,
                                   .transpose_b = tb});
          return {d.download()};
        });
        expect_close(out[0], product(c, a, b), kForwardTolerance, "product");
      }
    }
  }
}

TEST_P(MatmulTest, Accumulates) {
  const Case c{200, 300, 50, Transpose::kYes, Transpose::kNo};
  const auto a = random(c.m * c.k), b = random(c.k * c.n), start = random(c.m * c.n);
  const Outputs out = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
    const DeviceArray d = rig.upload({c.m, c.n}, start);
    rig->matmul(rig.exec(), {.a = rig.upload(a_shape(c), a),
                             .b = rig.upload(b_shape(c), b),
                             .d = d,
                             .transpose_a = c.ta,
                             .mode = GradientMode::kAccumulate});
    return {d.download()};
  });
  expect_close(out[0], accumulated(product(c, a, b), start, GradientMode::kAccumulate), kForwardTolerance,
               "accumulated product");
}

// Every combination of bias, activation, kept pre-activation and residual, the last also in place.
TEST_P(MatmulTest, Epilogues) {
  for (const auto& [m, n, k] :
       {std::array<std::int64_t, 3>{1, 1, 3}, {127, 200, 30}, {530, 200, 7}, {65, 800, 7}}) {
    const Case c{m, n, k, Transpose::kNo, Transpose::kYes};
    const auto a = random(m * k), b = random(k * n), bias = random(n), residual = random(m * n);
    const std::vector<double> bare = product(c, a, b);
    for (int bits = 0; bits < 32; ++bits) {
      const bool with_bias = bits & 1, with_gelu = bits & 2, with_pre = bits & 4, with_residual = bits & 8;
      const bool in_place = bits & 16;
      if (in_place && !with_residual) continue;
      SCOPED_TRACE(fmt::format("{}x{}x{} bias {} gelu {} pre {} residual {} in place {}", m, n, k, with_bias,
                               with_gelu, with_pre, with_residual, in_place));
      std::vector<double> pre = bare, expected = bare;
      for (std::int64_t i = 0; i < m * n; ++i) {
        pre[i] += with_bias ? bias[i % n] : 0.0f;
        expected[i] = (with_gelu ? gelu(pre[i]) : pre[i]) + (with_residual ? residual[i] : 0.0f);
      }
      const Outputs out = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
        const DeviceArray d = in_place ? rig.upload({m, n}, residual) : rig.poisoned({m, n});
        const DeviceArray kept = rig.poisoned({m, n});
        const DeviceArray device_bias = rig.upload({n}, bias), other = rig.upload({m, n}, residual);
        const DeviceArray device_a = rig.upload(a_shape(c), a), device_b = rig.upload(b_shape(c), b);
        MatmulArgs args{.a = device_a, .b = device_b, .d = d};
        args.transpose_b = Transpose::kYes;
        if (with_bias) args.bias = device_bias;
        if (with_gelu) args.activation = Activation::kGeluTanh;
        if (with_pre) args.pre_activation = kept;
        if (with_residual) args.residual = in_place ? d.view() : other.view();
        rig->matmul(rig.exec(), args);
        return {d.download(), kept.download()};
      });
      expect_close(out[0], expected, kForwardTolerance, "d");
      if (with_pre) expect_close(out[1], pre, kForwardTolerance, "pre_activation");
    }
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
    r->matmul(r.exec(), args);
    args.d = in_place;
    args.residual = in_place;
    r->matmul(r.exec(), args);
    EXPECT_TRUE(same_bits(apart.download(), in_place.download()));
  }
}

// The library below must not take the threads that the calling thread's settings would allow.
TEST_P(MatmulTest, OneThreadMeansOne) {
  const std::int64_t m = 40, n = 50, k = 5000;
  const auto a = random(m * k), b = random(k * n);
  const auto run = [&](const Rig& rig, const KernelContext& exec) {
    const DeviceArray d = rig.poisoned({m, n});
    rig->matmul(exec, {.a = rig.upload({m, k}, a), .b = rig.upload({k, n}, b), .d = d});
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
      r->matmul(r.exec(), {.a = da, .b = db, .d = d, .activation = activation});
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

TEST_P(MatmulTest, RefusesDtypesItLacks) {
  if (GetParam() != DeviceType::kCpu) GTEST_SKIP() << "which dtypes are missing is the cpu's own matter";
  const Rig r = rig();
  const DeviceArray d = r.poisoned({2, 2});
  TensorView half = d;
  half.dtype = DType::kFloat16;
  try {
    r->matmul(r.exec(), {.a = half, .b = half, .d = half});
    FAIL() << "fp16 was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    const std::string text = error.what();
    for (const char* word : {"matmul", "cpu", "fp16"}) EXPECT_NE(text.find(word), std::string::npos) << text;
  }
}

TEST_P(MatmulTest, RefusesTf32WhereItLacksIt) {
  if (GetParam() != DeviceType::kCpu) GTEST_SKIP() << "which modes are missing is the cpu's own matter";
  const Rig r = rig();
  const DeviceArray d = r.poisoned({2, 2});
  EXPECT_THROW(r->matmul(r.exec(), {.a = d, .b = d, .d = d, .math = MathMode::kTf32}), Error);
}

TRIREME_INSTANTIATE_KERNEL_TEST(MatmulTest);

}  // namespace
}  // namespace trireme::testing
