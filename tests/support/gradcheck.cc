#include "tests/support/gradcheck.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "runtime/tape.h"

namespace trireme::testing {

std::vector<float> random_values(std::int64_t count, std::uint64_t stream) {
  std::mt19937_64 engine(stream);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& v : values) v = normal(engine);
  return values;
}

namespace {

double dot(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

// Evaluates L for the current parameter values and this input.
double evaluate(const GradcheckCase& test, Context& ctx, const std::vector<float>& input,
                const std::vector<float>& w) {
  ctx.tape = nullptr;
  ctx.rng.op = 0;
  const Tensor x = test.has_input ? ctx.from_host(input.data(), test.input, DType::kFloat32) : Tensor();
  return dot(ctx.to_host(test.op(ctx, x)), w);
}

void expect_direction(const std::string& what, double numeric, double analytic, double gradient_norm) {
  EXPECT_NEAR(numeric, analytic, 2e-3 * gradient_norm + 1e-5) << what;
}

// The results of the op and its backward, and their memory.
struct Needs {
  Shape result;
  DType dtype = DType::kFloat32;
  std::vector<Shape> gradients;
  MemoryStats memory;
};

Needs needs_on(DeviceType device, const GradcheckCase& test) {
  Context ctx = Context::create({device}, 2);
  ctx.training = true;
  LocalParameters params(ctx, test.parameters, "op", 3);
  ctx.parameters = &params;
  Tape tape;
  ctx.tape = &tape;
  const Tensor x = test.has_input ? tape.watch(ctx.zeros(test.input)) : Tensor();
  const Tensor y = test.op(ctx, x);
  Needs needs{.result = y.shape(), .dtype = y.dtype()};
  const std::vector<ValueId> inputs = test.has_input ? std::vector<ValueId>{x.id()} : std::vector<ValueId>{};
  for (const Tensor& dx : tape.backward(ctx, {{y.id(), ctx.zeros(y.shape())}}, inputs)) {
    needs.gradients.push_back(dx.shape());
  }
  needs.memory = ctx.allocator->stats();
  return needs;
}

void expect_meta_counts_right(const GradcheckCase& test) {
  const Needs cpu = needs_on(DeviceType::kCpu, test), meta = needs_on(DeviceType::kMeta, test);
  EXPECT_EQ(meta.result, cpu.result);
  EXPECT_EQ(meta.dtype, cpu.dtype);
  EXPECT_EQ(meta.gradients, cpu.gradients);
  EXPECT_EQ(meta.memory.peak_total, cpu.memory.peak_total);
  for (int i = 0; i < kNumMemoryCategories; ++i) {
    const auto category = static_cast<MemoryCategory>(i);
    if (category == MemoryCategory::kWorkspace) continue;  // depends on the backend
    EXPECT_EQ(meta.memory.peak[category], cpu.memory.peak[category]) << name(category);
  }
}

}  // namespace

void expect_gradients(const GradcheckCase& test) {
  expect_meta_counts_right(test);
  Context ctx = Context::create({DeviceType::kCpu}, 2);
  ctx.training = true;
  LocalParameters params(ctx, test.parameters, "op", 3);
  ctx.parameters = &params;
  const std::vector<float> input = !test.has_input             ? std::vector<float>{}
                                   : test.input_values.empty() ? random_values(test.input.num_elems(), 11)
                                                               : test.input_values;
  std::vector<std::vector<float>> values;  // random: fresh parameters are too regular (zeros, ones)
  for (std::size_t p = 0; p < test.parameters.size(); ++p) {
    values.push_back(random_values(test.parameters[p].shape.num_elems(), 100 + p));
    for (float& v : values.back()) v *= 0.5f;
    if (p < test.parameter_values.size()) values.back() = test.parameter_values[p];
    ctx.backend->copy_from_host(ctx.exec, params.value({static_cast<int>(p)}), values.back().data());
  }

  Tape tape;
  ctx.tape = &tape;
  const Tensor x =
      test.has_input ? tape.watch(ctx.from_host(input.data(), test.input, DType::kFloat32)) : Tensor();
  const Tensor y = test.op(ctx, x);
  const std::vector<float> w = random_values(y.num_elems(), 17);
  const std::vector<ValueId> inputs = test.has_input ? std::vector<ValueId>{x.id()} : std::vector<ValueId>{};
  const std::vector<Tensor> dx =
      tape.backward(ctx, {{y.id(), ctx.from_host(w.data(), y.shape(), DType::kFloat32)}}, inputs);
  EXPECT_EQ(tape.num_nodes(), 0u);

  constexpr float kStep = 5e-3f;
  constexpr int kDirections = 4;
  const auto moved = [&](const std::vector<float>& base, const std::vector<float>& d, float h) {
    std::vector<float> result = base;
    for (std::size_t i = 0; i < result.size(); ++i) result[i] += h * d[i];
    for (const float number : d) EXPECT_LT(std::abs(h * number), kLargestMove);
    return result;
  };
  if (test.has_input) {
    const std::vector<float> gradient = ctx.to_host(dx.at(0));
    for (int k = 0; k < kDirections; ++k) {
      const std::vector<float> d =
          random_values(test.input.num_elems(), 1000 + static_cast<std::uint64_t>(k));
      const double numeric =
          (evaluate(test, ctx, moved(input, d, kStep), w) - evaluate(test, ctx, moved(input, d, -kStep), w)) /
          (2 * kStep);
      expect_direction("input", numeric, dot(gradient, d), std::sqrt(dot(gradient, gradient)));
    }
  }
  for (std::size_t p = 0; p < test.parameters.size(); ++p) {
    const ParamRef ref{static_cast<int>(p)};
    const std::vector<float> gradient = ctx.to_host(params.gradient_of(ref));
    for (int k = 0; k < kDirections; ++k) {
      const std::vector<float> d =
          random_values(static_cast<std::int64_t>(gradient.size()), 2000 + static_cast<std::uint64_t>(k));
      double side[2];
      for (const int sign : {0, 1}) {
        const std::vector<float> shifted = moved(values[p], d, sign == 0 ? -kStep : kStep);
        ctx.backend->copy_from_host(ctx.exec, params.value(ref), shifted.data());
        side[sign] = evaluate(test, ctx, input, w);
      }
      ctx.backend->copy_from_host(ctx.exec, params.value(ref), values[p].data());
      expect_direction(test.parameters[p].name, (side[1] - side[0]) / (2 * kStep), dot(gradient, d),
                       std::sqrt(dot(gradient, gradient)));
    }
  }
}

}  // namespace trireme::testing
