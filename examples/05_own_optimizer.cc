// An optimizer and a learning-rate schedule of your own: AdaGrad (Duchi et al. 2011) with an inverse square
// root schedule trains a GPT to count. examples/extending.md gives the rules that this file follows.
//
// Run:     build/release/bin/05_own_optimizer
// Expect:  the loss falls from about 2.4 to below 0.3; 1 rank, 4 ranks with ZeRO-1, 2 with ZeRO-3 and 2
// stages print the same state hash. Each rank's predicted memory of the optimizer is the measured memory, a
// quarter of it on 4 ranks. A checkpoint of 1 rank continues on 2 with the same bits. Takes about a second.
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <span>

#include <unistd.h>

#include "models/gpt.h"
#include "parallel/comm/local.h"
#include "parallel/foresee/predict.h"
#include "parallel/run/checkpoint_state.h"
#include "parallel/run/engine.h"
#include "runtime/base/error.h"

namespace {
using namespace trireme;

// sum += g^2;  p -= lr (g / (sqrt(sum) + eps) + decay p)
//
// An optimizer is a rule without memory. The engine keeps what state_names() lists, fp32 zeros at the start,
// and shards, saves, hashes and predicts it.
class AdaGrad final : public Optimizer {
 public:
  explicit AdaGrad(float weight_decay) : weight_decay_(weight_decay) {}

  std::vector<std::string> state_names() const override { return {"sum"}; }

  void update(const Context& ctx, const UpdateSegment& segment, const UpdateScalars& scalars) const override {
    const DeviceTraits& device = traits(ctx.allocator->device().type);
    TRIREME_CHECK(device.host_memory, "AdaGrad of example 05 has no kernel for {}", device.name);
    TRIREME_CHECK(segment.grad.dtype == DType::kFloat32, "AdaGrad of example 05 reads fp32 gradients only");
    if (device.computes) move(segment, scalars);
    // 16-bit modes have a separate working copy, minus a center where the parameter has one.
    if (segment.working.defined())
      ctx.run(CastArgs{.x = segment.param, .y = segment.working, .center = segment.working_center});
  }

 private:
  // Element by element, so that every piece of a shard gets the bits of the whole.
  void move(const UpdateSegment& segment, const UpdateScalars& scalars) const {
    if (scalars.skip.defined() && *scalars.skip.const_view().as<std::int32_t>() != 0) return;
    const float lr = *scalars.lr.const_view().as<float>();
    const float clip = *scalars.clip.const_view().as<float>();  // also divides by the loss scale
    const float decay = segment.decay * weight_decay_;          // segment.decay: 0 for biases and norms
    float *p = segment.param.as<float>(), *sum = segment.state[0].as<float>();
    const float* grad = segment.grad.as<float>();
    for (std::int64_t i = 0; i < segment.param.num_elems(); ++i) {
      const float g = clip * grad[i];
      sum[i] += g * g;
      p[i] -= lr * (g / (std::sqrt(sum[i]) + 1e-10f) + decay * p[i]);
    }
  }

  const float weight_decay_;
};

// A schedule of your own is a function of the step: Engine::step takes the rate of each step.
double rate(std::int64_t step) {
  constexpr double kPeak = 0.1, kWarmup = 10;
  const double s = static_cast<double>(step) + 1;
  return kPeak * std::min(s / kWarmup, std::sqrt(kWarmup / s));
}

// Sequences of 8 digits, each the previous one plus 1.
HostBatch digits(std::int64_t first, std::int64_t count) {
  HostBatch batch{.input_shape = {count, 8}, .target_shape = {count, 8}};
  for (std::int64_t i = first * 8; i < (first + count) * 8; ++i) {
    const auto digit = static_cast<std::int32_t>((i + i / 8) % 10);
    const auto bytes = std::as_bytes(std::span(&digit, 1));
    batch.inputs.insert(batch.inputs.end(), bytes.begin(), bytes.end());
    batch.targets.push_back((digit + 1) % 10);
  }
  return batch;
}

constexpr std::int64_t kBatch = 16, kSteps = 60, kSaved = 30;

EngineOptions options_of(const Layout& layout) {
  return {.global_batch = kBatch,
          .micro_batch = 2,
          .own_optimizer = [] { return std::make_unique<AdaGrad>(0.01f); },
          .grad_clip = 1.0f,
          .layout = layout,
          .sample = SampleSpec{.input = {8}, .target = {8}}};
}

std::shared_ptr<const BlockList> gpt() {
  return std::make_shared<const BlockList>(
      build_gpt({.layers = 2, .hidden = 32, .heads = 2, .vocab = 10, .seq_len = 8}));
}

float train(Engine& engine, std::int64_t until) {
  float loss = 0;
  while (engine.steps_done() < until) {
    const std::int64_t first = engine.steps_done() * kBatch;
    const auto source = [&](std::int64_t sample, std::int64_t n) { return digits(first + sample, n); };
    loss = engine.step(source, kBatch * 8, rate(engine.steps_done())).loss;
  }
  return loss;
}

struct Outcome {
  std::uint64_t hash = 0;
  float loss = 0;
};

// Trains, from the checkpoint in `from` if that is not empty. Rank 0 of 1 saves in `to`.
Outcome run(const char* name, int ranks, const Layout& layout, const std::filesystem::path& from,
            const std::filesystem::path& to) {
  const auto blocks = gpt();
  const EngineOptions options = options_of(layout);
  Outcome outcome;
  run_local_ranks(ranks, [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(blocks, comm, options);
    if (!from.empty()) {
      load_state(engine, from, StateParts::kAll);
      engine.set_steps_done(kSaved);
    }
    if (!to.empty()) {
      train(engine, kSaved);
      save_state(engine, to);
    }
    const float loss = train(engine, kSteps);
    const std::int64_t measured = engine.context().allocator->stats().current[MemoryCategory::kOptimizer];
    const std::int64_t predicted = predict_step(blocks, options, *options.sample, ranks, comm->rank())
                                       .memory.peak[MemoryCategory::kOptimizer];
    TRIREME_CHECK(measured == predicted, "predicted {} bytes, measured {}", predicted, measured);
    const std::uint64_t hash = engine.state_hash();
    if (comm->rank() > 0) return;
    outcome = {.hash = hash, .loss = loss};
    std::printf("%-24s loss %.4f  state of the optimizer %6lld bytes a rank  hash %016llx\n", name,
                static_cast<double>(loss), static_cast<long long>(measured),
                static_cast<unsigned long long>(hash));
  });
  return outcome;
}

}  // namespace

int main() {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("trireme_05_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const Outcome one = run("1 rank", 1, {}, {}, folder);
  const Outcome others[] = {run("4 ranks, ZeRO-1", 4, {.zero = ZeroStage::kOptimizer}, {}, {}),
                            run("2 ranks, ZeRO-3", 2, {.zero = ZeroStage::kParameters}, {}, {}),
                            run("2 stages", 2, {.pipeline = 2}, {}, {}),
                            run("1 rank, then 2, ZeRO-1", 2, {.zero = ZeroStage::kOptimizer}, folder, {})};
  std::filesystem::remove_all(folder);
  for (const Outcome& other : others) {
    if (other.hash != one.hash || other.loss != one.loss) return 1;
  }
  return one.loss < 0.3f ? 0 : 1;
}
