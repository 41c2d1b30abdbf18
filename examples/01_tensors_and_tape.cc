// Tensors, ops and the tape: fits y = 3 a - 2 b + 1 by gradient descent. No engine, no plan, one rank.
//
// Run:     build/release/bin/01_tensors_and_tape
// Expect:  the squared error falls to about 0; weights and bias are 3, -2 and 1. Takes milliseconds.
#include <cstdio>
#include <random>

#include "runtime/local_parameters.h"
#include "runtime/ops/linear.h"
#include "runtime/optim/optimizer.h"
#include "runtime/tape.h"

int main() {
  using namespace trireme;
  Context ctx = Context::create({DeviceType::kCpu}, /*num_threads=*/1);

  // Parameters are declared, then accessed through a resolver. This one is plain memory on the device.
  LocalParameters params(ctx, {{.name = "weight", .shape = {1, 2}}, {.name = "bias", .shape = {1}}}, "line",
                         0);
  const ParamRef weight{0}, bias{1};
  ctx.parameters = &params;

  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  constexpr int kSamples = 64;
  std::vector<float> inputs, wanted;
  for (int i = 0; i < kSamples; ++i) {
    const float a = normal(random), b = normal(random);
    inputs.insert(inputs.end(), {a, b});
    wanted.push_back(3 * a - 2 * b + 1);
  }
  const Tensor x = ctx.from_host(inputs.data(), {kSamples, 2}, DType::kFloat32);

  const float lr = 0.1f, clip = 1.0f;
  const auto optimizer = make_optimizer({.kind = OptimizerConfig::Kind::kSgd});
  for (std::int32_t step = 1; step <= 200; ++step) {
    Tape tape;
    ctx.tape = &tape;  // from here on, ops record their backward
    params.clear_gradients();
    const Tensor y = ops::linear(ctx, x, weight, {.bias = bias});

    // The gradient of the mean squared error, computed by hand, starts the backward.
    const std::vector<float> got = ctx.to_host(y);
    std::vector<float> dy(kSamples);
    float error = 0;
    for (std::size_t i = 0; i < kSamples; ++i) {
      const float difference = got[i] - wanted[i];
      error += difference * difference / kSamples;
      dy[i] = 2 * difference / kSamples;
    }
    if (step == 1) std::printf("%s", tape.to_string().c_str());
    tape.backward(ctx, {{y.id(), ctx.from_host(dy.data(), y.shape(), DType::kFloat32)}}, {});

    const UpdateScalars scalars{.lr = ctx.from_host(&lr, {}, DType::kFloat32),
                                .clip = ctx.from_host(&clip, {}, DType::kFloat32),
                                .step = ctx.from_host(&step, {}, DType::kInt32)};
    for (const ParamRef ref : {weight, bias}) {
      optimizer->update(ctx, {.param = params.value(ref), .grad = params.gradient_of(ref)}, scalars);
    }
    if (step == 1 || step % 50 == 0)
      std::printf("step %3d  squared error %.6f\n", step, static_cast<double>(error));
  }
  const std::vector<float> w = ctx.to_host(params.value(weight)), b = ctx.to_host(params.value(bias));
  std::printf("weights %.3f %.3f, bias %.3f\n", static_cast<double>(w[0]), static_cast<double>(w[1]),
              static_cast<double>(b[0]));
  return std::abs(w[0] - 3) < 0.01f && std::abs(w[1] + 2) < 0.01f && std::abs(b[0] - 1) < 0.01f ? 0 : 1;
}
