#include "parallel/run/dry_run.h"

#include <algorithm>
#include <utility>

#include "parallel/layout/sample_batch.h"
#include "runtime/base/error.h"
#include "runtime/deferred_gradients.h"
#include "runtime/tape.h"

namespace trireme {
namespace {

// Parameters, gradients and statistics of one block, with the engine's shapes and dtypes and meaningless
// values.
class Scratch final : public ParameterResolver, public StatisticResolver {
 public:
  Scratch(const Context& ctx, const Block& block)
      : block_(block), dtype_(ctx.precision.compute_dtype()), fp8_(ctx.precision.has_fp8_products()) {
    for (const ParameterSpec& spec : block.parameters()) {
      parameters_.push_back({.value = ctx.zeros(spec.shape, dtype_, MemoryCategory::kParameters),
                             .gradient = ctx.empty(spec.shape, DType::kFloat32, MemoryCategory::kGradients)});
    }
    for (const StatisticSpec& spec : block.statistics()) {
      running_.push_back(ctx.zeros(spec.shape, DType::kFloat32, MemoryCategory::kParameters));
      samples_.push_back(ctx.zeros(spec.shape, DType::kFloat32, MemoryCategory::kParameters));
    }
  }

  Tensor value(ParamRef ref) override { return parameters_.at(static_cast<std::size_t>(ref.index)).value; }
  float center(ParamRef ref) const override {
    return size_bytes(dtype_) == 2 ? block_.parameters().at(static_cast<std::size_t>(ref.index)).center
                                   : 0.0f;
  }
  GradientTarget gradient(ParamRef ref) override {
    Parameter& p = parameters_.at(static_cast<std::size_t>(ref.index));
    const bool again = std::exchange(p.written, true);
    return {p.gradient, again ? GradientMode::kAccumulate : GradientMode::kOverwrite};
  }
  const Adapter* adapter(ParamRef weight) const override { return block_.adapter(weight); }
  Tensor value(StatisticRef ref) override { return running_.at(static_cast<std::size_t>(ref.index)); }
  Tensor sample(StatisticRef ref) override { return samples_.at(static_cast<std::size_t>(ref.index)); }
  std::optional<Fp8Maxima> maxima(ParamRef weight, Fp8Operand) override {
    const bool has = fp8_ && block_.parameters().at(static_cast<std::size_t>(weight.index)).allows_fp8;
    return has ? std::optional(Fp8Maxima{}) : std::nullopt;
  }

 private:
  struct Parameter {
    Tensor value, gradient;
    bool written = false;
  };
  const Block& block_;
  const DType dtype_;
  const bool fp8_;
  std::vector<Parameter> parameters_;
  std::vector<Tensor> running_, samples_;
};

}  // namespace

void DryRun::cover(const BoundaryShapes::Play& play) {
  if (play.num_samples == 0 || !covered_.insert(play).second) return;
  const Context& ctx = options_.ctx;
  for (int unit = 0; unit < options_.stages.num_units(); ++unit) {
    if (options_.stages.stage_of(unit) != options_.stage) continue;
    const std::string& name = options_.blocks[static_cast<std::size_t>(unit)]->name();
    const MemoryHolderScope holder(*ctx.allocator, name);
    try {
      run(unit, play);
    } catch (const Error& e) {
      throw e.saying(fmt::format("trying block '{}' before the first step: {}", name, e.what()));
    }
  }
  if (ctx.backend->prepare_uploads != nullptr) ctx.backend->prepare_uploads(ctx.exec, upload_bytes(play));
  ctx.backend->synchronize(ctx.exec);
}

// The largest copy to the device in a play: a tensor of a batch, if this rank reads any.
std::size_t DryRun::upload_bytes(const BoundaryShapes::Play& play) const {
  const bool reads = options_.stages.stage_of(0) == options_.stage ||
                     options_.stages.stage_of(options_.stages.num_units() - 1) == options_.stage;
  if (!reads) return 0;
  std::int64_t largest = 0;
  make_batch(options_.sample, play.num_samples, [&](const Shape& shape, DType dtype) {
    largest = std::max(largest, shape.num_elems() * size_bytes(dtype));
    return Tensor();
  });
  return static_cast<std::size_t>(largest);
}

// The batch that StageCompute passes to a unit: only the first and the last read it.
Batch DryRun::batch_of(int unit, const BoundaryShapes::Play& play) const {
  if (unit != 0 && !is_last(unit)) return {};
  return make_batch(options_.sample, play.num_samples, [&](const Shape& shape, DType dtype) {
    return options_.ctx.zeros(shape, dtype, MemoryCategory::kBatch);
  });
}

void DryRun::run(int unit, const BoundaryShapes::Play& play) const {
  const Block& block = *options_.blocks[static_cast<std::size_t>(unit)];
  Context ctx = options_.ctx;
  Scratch scratch(ctx, block);
  ctx.parameters = &scratch;
  ctx.statistics = &scratch;
  ctx.training = play.training;
  ctx.rng.block = static_cast<std::uint16_t>(unit);
  Batch batch = batch_of(unit, play);
  Activations input;
  if (unit > 0) {
    for (const TensorSpec& spec : options_.shapes.of(unit - 1, play))
      input.push_back(ctx.zeros(spec.shape, spec.dtype));
  }
  if (!play.training || options_.recomputes) (void)block.forward(ctx, input, batch);
  if (!play.training) {
    batch.targets = {};
    if (is_last(unit)) (void)block.forward(ctx, input, batch);  // logits
    return;
  }

  Tape tape(options_.recompute);
  std::vector<ValueId> input_ids;
  for (Tensor& tensor : input) {
    tensor = tape.watch(tensor);
    input_ids.push_back(tensor.id());
  }
  ctx.tape = &tape;
  const Activations outputs = block.forward(ctx, input, batch);
  ctx.tape = nullptr;
  std::vector<Tape::Seed> seeds;
  for (const Tensor& output : outputs) {
    if (output.id() == kNoValue) continue;
    seeds.push_back({output.id(), is_last(unit) ? Tensor() : ctx.zeros(output.shape(), output.dtype())});
  }
  if (!options_.two_part_backward) {
    (void)tape.backward(ctx, std::move(seeds), input_ids);
    return;
  }
  DeferredGradients deferred;
  StagedParameters staged(ctx, scratch, deferred);
  Context first_part = ctx;
  first_part.parameters = &staged;
  first_part.deferred = &deferred;
  (void)tape.backward(first_part, std::move(seeds), input_ids);
  deferred.run(ctx);
}

}  // namespace trireme
