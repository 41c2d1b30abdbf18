// An op and a loss of your own: a network with the activation Snake (Ziyin et al. 2020) is fitted to a
// periodic function with the loss of Huber. examples/extending.md gives the rules that this file follows.
//
// Run:     build/release/bin/04_own_op_and_loss
// Expect:  the backward agrees with finite differences; the loss falls from about 0.6 to below 0.01; four
// layouts print the same state hash, and each one's predicted memory is the measured memory. Takes about a
// second.
#include <cmath>
#include <cstdio>
#include <cstring>

#include "parallel/comm/local.h"
#include "parallel/foresee/predict.h"
#include "parallel/run/engine.h"
#include "runtime/base/error.h"
#include "runtime/base/rng.h"
#include "runtime/local_parameters.h"
#include "runtime/ops/cast.h"
#include "runtime/ops/linear.h"
#include "runtime/tape.h"

namespace {
using namespace trireme;

// True if loops of this file may read and write elements. Tensors on `meta` have none; on `cuda` they are
// in memory of the card, and a kernel of yours runs on ctx.exec.stream.
bool has_elements(const Tensor& x) {
  const DeviceTraits& device = traits(x.device().type);
  TRIREME_CHECK(device.host_memory, "example 04 has no kernel for {}", device.name);
  return device.computes;
}

const float* floats(const Tensor& x) {
  return static_cast<const float*>(x.data());
}
float* writable(const Tensor& x) {
  return static_cast<float*>(x.data());
}

// Snake: y = x + sin(a x)^2 / a, with a learned frequency a for each of C channels.

struct SnakeBackward {
  Tensor x;  // [M, C] fp32, with its id
  ParamRef frequency;

  std::string name() const { return "snake"; }
  std::vector<Tensor> saved() const { return {x}; }

  void backward(Context& ctx, Gradients& gradients, ValueId y) const {
    const Tensor dy = gradients.take(y);
    const Tensor a = ops::parameter(ctx, frequency, DType::kFloat32);
    const Tensor dx = ctx.empty(x.shape()), da = ctx.zeros(a.shape());
    if (has_elements(x)) compute(floats(dy), floats(a), writable(dx), writable(da));
    gradients.add(ctx, x.id(), dx);
    add_to_parameter(ctx, da);
  }

 private:
  // The rows are added in their order, so that the sum has the same bits on every run.
  void compute(const float* dy, const float* a, float* dx, float* da) const {
    const std::int64_t channels = x.shape().dim(-1);
    for (std::int64_t i = 0; i < x.num_elems(); ++i) {
      const std::int64_t c = i % channels;
      const float ax = a[c] * floats(x)[i], sine = std::sin(ax), slope = std::sin(2 * ax);
      dx[i] = dy[i] * (1 + slope);
      da[c] += dy[i] * (ax * slope - sine * sine) / (a[c] * a[c]);
    }
  }

  // The mode says whether the gradient is wanted, is the first of this backward, or joins an earlier one.
  void add_to_parameter(Context& ctx, const Tensor& da) const {
    const GradientTarget target = ctx.parameters->gradient(frequency);
    if (target.mode == GradientMode::kOverwrite) ctx.backend->copy(ctx.exec, target.tensor, da);
    if (target.mode == GradientMode::kAccumulate) {
      ctx.run(AddArgs{.a = target.tensor, .b = da, .out = target.tensor});
    }
  }
};

/// x [..., C] in any dtype, frequency [C], positive. Returns fp32.
Tensor snake(Context& ctx, const Tensor& input, ParamRef frequency) {
  const Tensor x = ops::cast(ctx, input, DType::kFloat32);  // its backward casts the gradient back
  const Tensor a = ops::parameter(ctx, frequency, DType::kFloat32);
  TRIREME_CHECK(a.shape() == Shape{x.shape().dim(-1)}, "snake: input {} does not fit {} frequencies",
                x.shape().to_string(), a.shape().to_string());
  const Tensor y = ctx.empty(x.shape());
  if (has_elements(x)) {
    for (std::int64_t i = 0; i < x.num_elems(); ++i) {
      const float frequency_of_channel = floats(a)[i % a.num_elems()];
      const float sine = std::sin(frequency_of_channel * floats(x)[i]);
      writable(y)[i] = floats(x)[i] + sine * sine / frequency_of_channel;
    }
  }
  return recorded(ctx, y, SnakeBackward{.x = x, .frequency = frequency});
}

// The loss of Huber: d^2 / 2 where |d| <= 1, else |d| - 1/2.

struct HuberBackward {
  Tensor dprediction;  // for a gradient of 1, times the loss scale
  ValueId prediction = kNoValue;

  std::string name() const { return "huber"; }
  std::vector<Tensor> saved() const { return {dprediction}; }

  // The gradient of the model's loss is the number 1, without a tensor. It is a tensor where the loss enters
  // another op.
  void backward(Context& ctx, Gradients& gradients, ValueId y) const {
    if (!gradients.is_unit(y)) ctx.run(ScaleArgs{.x = dprediction, .factor = gradients.take(y)});
    gradients.add(ctx, prediction, dprediction);
  }
};

/// prediction and targets [B, 1]. Returns the scalar inv_num_targets * the sum of the losses.
Tensor huber(Context& ctx, const Tensor& input, const Tensor& targets, float inv_num_targets) {
  const Tensor prediction = ops::cast(ctx, input, DType::kFloat32);
  TRIREME_CHECK(targets.dtype() == DType::kFloat32 && targets.shape() == prediction.shape(),
                "huber: predictions {} do not fit {} targets {}", prediction.shape().to_string(),
                name(targets.dtype()), targets.shape().to_string());
  const Tensor loss = ctx.zeros({}), dprediction = ctx.empty(prediction.shape());
  if (has_elements(prediction)) {
    const float scale = ctx.gradient_scale.defined() ? *floats(ctx.gradient_scale) : 1.0f;
    for (std::int64_t i = 0; i < prediction.num_elems(); ++i) {
      const float d = floats(prediction)[i] - floats(targets)[i];
      const bool near = std::abs(d) <= 1;
      *writable(loss) += inv_num_targets * (near ? d * d / 2 : std::abs(d) - 0.5f);
      writable(dprediction)[i] = scale * inv_num_targets * (near ? d : std::copysign(1.0f, d));
    }
  }
  return recorded(ctx, loss, HuberBackward{.dprediction = dprediction, .prediction = prediction.id()});
}

// Blocks that use both: they are plain single-device code, like the blocks of the library.

class SnakeLayer final : public Block {
 public:
  SnakeLayer(std::string name, std::int64_t inputs, std::int64_t width) : Block(std::move(name)) {
    const float bound = 1 / std::sqrt(static_cast<float>(inputs));
    weight_ = declare({.name = "weight", .shape = {width, inputs}, .init = Initializer::uniform(bound)});
    bias_ = declare({.name = "bias", .shape = {width}, .init = Initializer::uniform(bound), .decay = false});
    frequency_ =
        declare({.name = "frequency", .shape = {width}, .init = Initializer::ones(), .decay = false});
  }
  Activations forward(Context& ctx, const Activations& input, const Batch& batch) const override {
    const Tensor& x = input.empty() ? batch.inputs : input.front();
    return {snake(ctx, ops::linear(ctx, x, weight_, {.bias = bias_}), frequency_)};
  }

 private:
  ParamRef weight_, bias_, frequency_;
};

class Head final : public Block {
 public:
  explicit Head(std::int64_t width) : Block("head") {
    weight_ = declare({.name = "weight", .shape = {1, width}, .init = Initializer::normal(0.1f)});
  }
  Activations forward(Context& ctx, const Activations& input, const Batch& batch) const override {
    const Tensor prediction = ops::linear(ctx, input.front(), weight_);
    if (!batch.targets.defined()) return {prediction};
    return {huber(ctx, prediction, batch.targets, batch.inv_num_targets)};
  }

 private:
  ParamRef weight_;
};

BlockList network() {
  BlockList blocks;
  blocks.push_back(std::make_unique<SnakeLayer>("first", 1, 32));
  blocks.push_back(std::make_unique<SnakeLayer>("second", 32, 32));
  blocks.push_back(std::make_unique<Head>(32));
  return blocks;
}

// Central differences of the sum of snake(x) in the direction (1, 1, ...) of x, and then of the frequencies.
bool backward_agrees_with_differences() {
  Context ctx = Context::create({DeviceType::kCpu}, 1);
  LocalParameters params(ctx, {{.name = "frequency", .shape = {3}, .init = Initializer::ones()}}, "check", 0);
  const ParamRef frequency{0};
  ctx.parameters = &params;
  const std::vector<float> points{-1.3f, 0.4f, 2.1f, 0.9f, -0.2f, 0.7f}, ones(6, 1.0f);
  const auto sum_at = [&](float dx, float da) {
    std::vector<float> moved = points;
    for (float& x : moved) x += dx;
    for (int c = 0; c < 3; ++c) writable(params.value(frequency))[c] = 1 + 0.5f * static_cast<float>(c) + da;
    double sum = 0;
    for (const float y :
         ctx.to_host(snake(ctx, ctx.from_host(moved.data(), {2, 3}, DType::kFloat32), frequency)))
      sum += static_cast<double>(y);
    return sum;
  };
  constexpr float kStep = 1e-2f;
  const double by_x = (sum_at(kStep, 0) - sum_at(-kStep, 0)) / (2 * kStep);
  const double by_a = (sum_at(0, kStep) - sum_at(0, -kStep)) / (2 * kStep);
  sum_at(0, 0);  // restores the frequencies

  Tape tape;
  ctx.tape = &tape;
  const Tensor x = tape.watch(ctx.from_host(points.data(), {2, 3}, DType::kFloat32));
  const Tensor y = snake(ctx, x, frequency);
  const Tensor dy = ctx.from_host(ones.data(), y.shape(), DType::kFloat32);
  const std::vector<Tensor> dx = tape.backward(ctx, {{y.id(), dy}}, {x.id()});
  const auto sum = [&](const Tensor& of) {
    double total = 0;
    for (const float value : ctx.to_host(of)) total += static_cast<double>(value);
    return total;
  };
  const double dx_sum = sum(dx[0]), da_sum = sum(params.gradient_of(frequency));
  std::printf("backward %.4f %.4f, differences %.4f %.4f\n", dx_sum, da_sum, by_x, by_a);
  return std::abs(dx_sum - by_x) < 1e-2 && std::abs(da_sum - by_a) < 1e-2;
}

// Points of y = sin(3 x) + x / 2.
HostBatch points(std::int64_t first, std::int64_t count) {
  HostBatch batch{.input_shape = {count, 1},
                  .target_shape = {count, 1},
                  .input_dtype = DType::kFloat32,
                  .target_dtype = DType::kFloat32};
  batch.inputs.resize(static_cast<std::size_t>(count) * sizeof(float));
  for (std::int64_t i = 0; i < count; ++i) {
    const Philox4 words = philox4x32({static_cast<std::uint32_t>(first + i), 0, 0, 0}, {3, 4});
    const float x = 6 * uniform_from_bits(words[0]) - 3;
    std::memcpy(batch.inputs.data() + static_cast<std::size_t>(i) * sizeof(float), &x, sizeof x);
    batch.number_targets.push_back(std::sin(3 * x) + x / 2);
  }
  return batch;
}

struct Outcome {
  std::uint64_t hash = 0;
  float loss = 0;
  bool as_predicted = true;
};

Outcome train(const char* name, int ranks, const Layout& layout) {
  constexpr std::int64_t kBatch = 64;
  const auto blocks = std::make_shared<const BlockList>(network());
  const SampleSpec sample{
      .input = {1}, .input_dtype = DType::kFloat32, .target = {1}, .target_dtype = DType::kFloat32};
  const EngineOptions options{
      .global_batch = kBatch, .micro_batch = 16, .grad_clip = 1.0f, .layout = layout, .sample = sample};
  Outcome outcome;
  run_local_ranks(ranks, [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(blocks, comm, options);
    StepResult result;
    for (std::int64_t step = 0; step < 400; ++step) {
      const auto source = [&](std::int64_t first, std::int64_t n) {
        return points(step * kBatch + first, n);
      };
      result = engine.step(source, kBatch, 5e-3);
    }
    const StepPrediction predicted = predict_step(blocks, options, sample, ranks, comm->rank());
    const std::uint64_t hash = engine.state_hash();
    const auto same = [&](MemoryCategory category) {
      return result.memory.peak[category] == predicted.memory.peak[category];
    };
    const bool as_predicted = same(MemoryCategory::kActivations) && same(MemoryCategory::kGradients);
    const std::vector<std::uint8_t> all =
        comm->all_gather_value(static_cast<std::uint8_t>(as_predicted ? 1 : 0));
    if (comm->rank() > 0) return;
    for (const std::uint8_t one : all) outcome.as_predicted = outcome.as_predicted && one == 1;
    outcome.hash = hash;
    outcome.loss = result.loss;
    std::printf("%-32s loss %.4f  state %016llx\n", name, static_cast<double>(result.loss),
                static_cast<unsigned long long>(hash));
  });
  return outcome;
}

}  // namespace

int main() {
  if (!backward_agrees_with_differences()) return 1;
  const Outcome one = train("1 rank", 1, {});
  for (const Outcome& other :
       {train("2 ranks, ZeRO-3, recompute", 2, {.zero = ZeroStage::kParameters, .recompute_every = 1}),
        train("2 stages", 2, {.pipeline = 2}),
        train("2 stages, weight gradients late", 2,
              {.pipeline = 2, .schedule = PipelineSchedule::kZeroBubbleH1})}) {
    if (other.hash != one.hash || other.loss != one.loss || !other.as_predicted) return 1;
  }
  return one.as_predicted && one.loss < 0.01f ? 0 : 1;
}
