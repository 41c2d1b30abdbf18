// Your own block in the engine: a two-layer classifier of points, on two ranks (threads of this process).
//
// A block is plain single-device forward code. The engine adds data parallelism, accumulation, clipping,
// AdamW and a memory forecast. The bits are the same on every number of ranks.
//
// Run:     build/release/bin/02_own_block
// Expect:  the loss falls from about 0.7 to below 0.1, and both runs print the same state hash. Takes
// milliseconds.
#include <cstdio>
#include <cstring>

#include "parallel/comm/local.h"
#include "parallel/run/engine.h"
#include "runtime/base/rng.h"
#include "runtime/ops/cross_entropy.h"
#include "runtime/ops/linear.h"

namespace {
using namespace trireme;

class Classifier final : public Block {
 public:
  Classifier() : Block("classifier") {
    hidden_ = declare({.name = "hidden", .shape = {32, 2}, .init = Initializer::normal(0.7f)});
    offset_ = declare({.name = "offset", .shape = {32}, .init = Initializer::normal(0.3f), .decay = false});
    output_ = declare({.name = "output", .shape = {2, 32}, .init = Initializer::normal(0.2f)});
  }
  Activations forward(Context& ctx, const Activations&, const Batch& batch) const override {
    Tensor h =
        ops::linear(ctx, batch.inputs, hidden_, {.bias = offset_, .activation = Activation::kGeluTanh});
    Tensor logits = ops::linear(ctx, h, output_);
    if (!batch.targets.defined()) return {logits};
    return {ops::softmax_cross_entropy(ctx, std::move(logits), batch.targets, batch.inv_num_targets)};
  }

 private:
  ParamRef hidden_, offset_, output_;
};

// Random points in a square; class 1 is inside a circle.
HostBatch points(std::int64_t first, std::int64_t count) {
  HostBatch batch{.input_shape = {count, 2}, .target_shape = {count}, .input_dtype = DType::kFloat32};
  std::vector<float> inputs;
  for (std::int64_t i = first; i < first + count; ++i) {
    const Philox4 words = philox4x32({static_cast<std::uint32_t>(i), 0, 0, 0}, {1, 2});
    const float x = 2 * uniform_from_bits(words[0]) - 1, y = 2 * uniform_from_bits(words[1]) - 1;
    inputs.insert(inputs.end(), {x, y});
    batch.targets.push_back(x * x + y * y < 0.5f ? 1 : 0);
  }
  batch.inputs.resize(inputs.size() * sizeof(float));
  std::memcpy(batch.inputs.data(), inputs.data(), batch.inputs.size());
  return batch;
}

float train(int ranks) {
  constexpr std::int64_t kBatch = 64;
  float last = 0;
  run_local_ranks(ranks, [&](const std::shared_ptr<Communicator>& comm) {
    BlockList blocks;
    blocks.push_back(std::make_unique<Classifier>());
    Engine engine(std::move(blocks), comm, {.global_batch = kBatch, .micro_batch = 16, .grad_clip = 1.0f});
    for (std::int64_t step = 0; step < 300; ++step) {
      const auto source = [&](std::int64_t first, std::int64_t n) {
        return points(step * kBatch + first, n);
      };
      const StepResult result = engine.step(source, kBatch, 1e-2);
      if (comm->rank() == 0 && (step % 100 == 0 || step == 299)) {
        std::printf("step %3d  loss %.4f\n", static_cast<int>(result.step), static_cast<double>(result.loss));
        last = result.loss;
      }
    }
    const std::uint64_t hash = engine.state_hash();
    if (comm->rank() == 0)
      std::printf("%d rank(s): state %016llx\n", ranks, static_cast<unsigned long long>(hash));
  });
  return last;
}

}  // namespace

int main() {
  return train(1) == train(2) && train(2) < 0.2f ? 0 : 1;
}
