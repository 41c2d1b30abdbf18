// Compares the linear op in fp8 with a product of the decoded operands in double precision: result,
// gradients, saved bytes and recorded maxima. See [Note: fp8].
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>

#include "runtime/base/fp8.h"
#include "runtime/local_parameters.h"
#include "runtime/ops/linear.h"
#include "runtime/ops/swiglu.h"
#include "runtime/tape.h"
#include "tests/support/gradcheck.h"

namespace trireme {
namespace {

constexpr std::int64_t kRows = 24, kIn = 40, kOut = 17;

// The histories of one weight.
class Maxima final : public StatisticResolver {
 public:
  explicit Maxima(const Context& ctx) : ctx_(ctx) {
    for (Fp8Maxima& one : of) one = {.history = ctx.zeros({kFp8HistoryElems}), .sample = ctx.zeros({})};
  }
  Tensor value(StatisticRef) override { return {}; }
  Tensor sample(StatisticRef) override { return {}; }
  std::optional<Fp8Maxima> maxima(ParamRef weight, Fp8Operand operand) override {
    if (weight.index != 0) return std::nullopt;
    return of[static_cast<std::size_t>(operand)];
  }
  void expect(Fp8Operand operand, float amax) {
    std::vector<float> history(kFp8HistoryElems, 0.0f);
    history[0] = amax;
    ctx_.backend->copy_from_host(ctx_.exec, of[static_cast<std::size_t>(operand)].history, history.data());
  }
  float left(Fp8Operand operand) const {
    return ctx_.to_host(of[static_cast<std::size_t>(operand)].sample)[0];
  }

  Fp8Maxima of[kNumFp8Operands];

 private:
  const Context& ctx_;
};

float amax_of(const std::vector<float>& x) {
  float amax = 0.0f;
  for (const float value : x) amax = std::max(amax, std::fabs(value));
  return amax;
}

// `x` after quantization with the scale of `reference`.
std::vector<double> decoded(const std::vector<float>& x, Fp8Format format, float reference) {
  const int k = fp8_scale_exponent(reference, format);
  std::vector<double> numbers;
  for (const float value : x) {
    numbers.push_back(std::ldexp(float_of_fp8(fp8_of(std::ldexp(value, k), format), format), -k));
  }
  return numbers;
}

void expect_near(const std::vector<float>& got, const std::vector<double>& want, double bound) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    difference += std::pow(got[i] - want[i], 2), norm += want[i] * want[i];
  }
  EXPECT_LT(std::sqrt(difference / norm), bound);
}

class Fp8Linear : public ::testing::TestWithParam<bool> {};

TEST_P(Fp8Linear, IsTheProductOfTheDecodedOperands) {
  const bool has_history = GetParam();
  Context ctx = Context::create({}, 2);
  ctx.precision = Precision(PrecisionMode::kFp8);
  LocalParameters masters(
      ctx,
      {{.name = "w", .shape = {kOut, kIn}, .init = Initializer::normal(0.02f), .allows_fp8 = true},
       {.name = "b", .shape = {kOut}, .init = Initializer::normal(1.0f)}},
      "linear", 3);
  Maxima maxima(ctx);
  ctx.parameters = &masters;
  ctx.statistics = &maxima;
  const auto in_bf16 = [&ctx](const std::vector<float>& values, const Shape& shape) {
    const Tensor wide = ctx.from_host(values.data(), shape, DType::kFloat32);
    const Tensor narrow = ctx.empty(shape, DType::kBFloat16);
    ctx.run(CastArgs{.x = wide, .y = narrow});
    return narrow;
  };
  const Tensor x = in_bf16(testing::random_values(kRows * kIn, 1), {kRows, kIn});
  const Tensor dy = in_bf16(testing::random_values(kRows * kOut, 2), {kRows, kOut});
  const std::vector<float> weight = ctx.to_host(in_bf16(ctx.to_host(masters.value({0})), {kOut, kIn}));
  const std::vector<float> bias = ctx.to_host(in_bf16(ctx.to_host(masters.value({1})), {kOut}));
  const std::vector<float> x_host = ctx.to_host(x), dy_host = ctx.to_host(dy);
  // The maximum in the input's history is too low, so the input is clipped.
  const float x_reference = has_history ? amax_of(x_host) / 4 : amax_of(x_host);
  const float w_reference = has_history ? 1.0f : amax_of(weight);
  const float dy_reference = has_history ? 100.0f : amax_of(dy_host);
  if (has_history) {
    maxima.expect(Fp8Operand::kInput, x_reference);
    maxima.expect(Fp8Operand::kWeight, w_reference);
    maxima.expect(Fp8Operand::kOutputGradient, dy_reference);
  }

  Tape tape;
  ctx.tape = &tape;
  const Tensor leaf = tape.watch(x);
  const Tensor y = ops::linear(ctx, leaf, {0}, {.bias = {1}});
  EXPECT_EQ(y.dtype(), DType::kBFloat16);
  EXPECT_EQ(tape.saved_bytes(), kRows * kIn + 4);  // one byte per element, and the scale
  const std::vector<float> result = ctx.to_host(y);
  const std::vector<float> dx = ctx.to_host(tape.backward(ctx, {{y.id(), dy}}, {leaf.id()})[0]);

  const auto x8 = decoded(x_host, kE4m3, x_reference), w8 = decoded(weight, kE4m3, w_reference);
  const auto dy8 = decoded(dy_host, kE5m2, dy_reference);
  std::vector<double> want_y(kRows * kOut), want_dx(kRows * kIn), want_dw(kOut * kIn), want_db(kOut);
  for (std::size_t m = 0; m < kRows; ++m) {
    for (std::size_t n = 0; n < kOut; ++n) {
      want_y[m * kOut + n] = bias[n];
      want_db[n] += dy_host[m * kOut + n];  // not quantized
      for (std::size_t k = 0; k < kIn; ++k) {
        want_y[m * kOut + n] += x8[m * kIn + k] * w8[n * kIn + k];
        want_dx[m * kIn + k] += dy8[m * kOut + n] * w8[n * kIn + k];
        want_dw[n * kIn + k] += dy8[m * kOut + n] * x8[m * kIn + k];
      }
    }
  }
  expect_near(result, want_y, 0x1p-8);  // stored in bf16
  expect_near(dx, want_dx, 0x1p-8);
  expect_near(ctx.to_host(masters.gradient_of({0})), want_dw, 1e-6);
  expect_near(ctx.to_host(masters.gradient_of({1})), want_db, 1e-6);
  EXPECT_EQ(maxima.left(Fp8Operand::kInput), amax_of(x_host));
  EXPECT_EQ(maxima.left(Fp8Operand::kWeight), amax_of(weight));
  EXPECT_EQ(maxima.left(Fp8Operand::kOutputGradient), amax_of(dy_host));
}

INSTANTIATE_TEST_SUITE_P(Histories, Fp8Linear, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "delayed" : "first_step"; });

// Each weight has its own histories, which are empty or given.
class MaximaOfAll final : public StatisticResolver {
 public:
  MaximaOfAll(const Context& ctx, float amax) {
    std::vector<float> history(kFp8HistoryElems, 0.0f);
    history[0] = amax;
    for (auto& of_weight : of_) {
      for (Fp8Maxima& one : of_weight) {
        one = {.history = ctx.from_host(history.data(), {kFp8HistoryElems}, DType::kFloat32),
               .sample = ctx.zeros({})};
      }
    }
  }
  Tensor value(StatisticRef) override { return {}; }
  Tensor sample(StatisticRef) override { return {}; }
  std::optional<Fp8Maxima> maxima(ParamRef weight, Fp8Operand operand) override {
    return of_[static_cast<std::size_t>(weight.index)][static_cast<std::size_t>(operand)];
  }
  Fp8Codes* kept_codes(ParamRef weight) override { return keeps ? &kept[weight.index] : nullptr; }
  std::vector<float> samples(const Context& ctx) const {
    std::vector<float> all;
    for (const auto& of_weight : of_) {
      for (const Fp8Maxima& one : of_weight) all.push_back(ctx.to_host(one.sample)[0]);
    }
    return all;
  }

  bool keeps = false;
  std::map<int, Fp8Codes> kept;

 private:
  std::array<std::array<Fp8Maxima, kNumFp8Operands>, 2> of_;
};

// A gated MLP computed in three forms: with tensors between its ops, with codes, and with kept weight codes.
TEST(Fp8Swiglu, CodesBetweenTheOpsChangeNoBit) {
  for (const float amax : {0.0f, 2.0f}) {
    std::vector<std::vector<float>> expected;
    for (const int form : {0, 1, 2}) {
      SCOPED_TRACE("history " + std::to_string(amax) + ", form " + std::to_string(form));
      constexpr std::int64_t kFfn = 48;
      Context ctx = Context::create({}, 2);
      ctx.precision = Precision(PrecisionMode::kFp8);
      LocalParameters masters(
          ctx,
          {{.name = "up", .shape = {2 * kFfn, kIn}, .init = Initializer::normal(0.5f), .allows_fp8 = true},
           {.name = "down", .shape = {kOut, kFfn}, .init = Initializer::normal(0.5f), .allows_fp8 = true}},
          "mlp", 5);
      MaximaOfAll maxima(ctx, amax);
      maxima.keeps = form == 2;
      ctx.parameters = &masters;
      ctx.statistics = &maxima;
      const auto in_bf16 = [&ctx](std::int64_t cols, std::uint32_t seed) {
        const auto values = testing::random_values(kRows * cols, seed);
        const Tensor narrow = ctx.empty({2, kRows / 2, cols}, DType::kBFloat16);
        ctx.run(CastArgs{.x = ctx.from_host(values.data(), narrow.shape(), DType::kFloat32), .y = narrow});
        return narrow;
      };
      std::vector<std::vector<float>> results;
      for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
        Tape tape;
        ctx.tape = &tape;
        const Tensor leaf = tape.watch(in_bf16(kIn, 7));
        const Tensor h = ops::linear(ctx, leaf, {0});
        const Tensor y = form == 0
                             ? ops::linear(ctx, ops::swiglu(ctx, h), {1})
                             : ops::linear(ctx, ops::swiglu(ctx, h, {.writer = {0}, .reader = {1}}), {1});
        results.push_back(ctx.to_host(y));
        results.push_back(ctx.to_host(tape.backward(ctx, {{y.id(), in_bf16(kOut, 8)}}, {leaf.id()})[0]));
      }
      results.push_back(ctx.to_host(masters.gradient_of({0})));
      results.push_back(ctx.to_host(masters.gradient_of({1})));
      results.push_back(maxima.samples(ctx));
      EXPECT_EQ(maxima.kept.size(), form == 2 ? 2u : 0u);
      if (form == 0) expected = results;
      EXPECT_EQ(results, expected);
    }
  }
}

TEST(Fp8LinearOtherWeights, StayInBf16) {
  Context ctx = Context::create({}, 1);
  ctx.precision = Precision(PrecisionMode::kFp8);
  LocalParameters masters(ctx, {{.name = "other", .shape = {4, 4}}, {.name = "w", .shape = {8, 4}}}, "linear",
                          3);
  Maxima maxima(ctx);
  Tape tape;
  ctx.parameters = &masters;
  ctx.statistics = &maxima;
  ctx.tape = &tape;
  ops::linear(ctx, tape.watch(ctx.zeros({3, 4}, DType::kBFloat16)), {1});
  EXPECT_EQ(tape.saved_bytes(), 3 * 4 * 2);
}

}  // namespace
}  // namespace trireme
