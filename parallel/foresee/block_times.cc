#include "parallel/foresee/block_times.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <typeinfo>

#include "parallel/layout/sample_batch.h"
#include "runtime/base/error.h"
#include "runtime/local_parameters.h"
#include "runtime/ops/cast.h"
#include "runtime/tape.h"

namespace trireme {
namespace {

// On a busy machine the fastest of many short runs is the best estimate.
constexpr double kEnoughMs = 100.0;

// Working copies in the compute dtype, and fp32 gradients, as in an engine.
class WorkingParameters final : public ParameterResolver {
 public:
  WorkingParameters(Context ctx, const Block& block, DType dtype) : masters_(ctx, block, /*seed=*/0) {
    for (int i = 0; i < static_cast<int>(block.parameters().size()); ++i) {
      working_.push_back(ops::cast(ctx, masters_.value({i}), dtype));
    }
  }
  Tensor value(ParamRef ref) override { return working_.at(static_cast<std::size_t>(ref.index)); }
  GradientTarget gradient(ParamRef ref) override { return masters_.gradient(ref); }
  const Adapter* adapter(ParamRef weight) const override { return masters_.adapter(weight); }

 private:
  LocalParameters masters_;
  std::vector<Tensor> working_;
};

bool same_shapes(const Activations& a, const Activations& b) {
  const auto equal = [](const Tensor& x, const Tensor& y) {
    return x.shape() == y.shape() && x.dtype() == y.dtype();
  };
  return std::ranges::equal(a, b, equal);
}

class Profiler {
 public:
  Profiler(const HostBatch& batch, const BlockTimesOptions& options)
      : options_(options), ctx_(Context::create(options.device, options.threads, options.memory_limit)) {
    ctx_.training = true;
    ctx_.precision = options.precision;
    const auto upload = [&](Tensor& tensor, const void* data, const Shape& shape, DType dtype) {
      tensor = ctx_.from_host(data, shape, dtype, MemoryCategory::kBatch);
    };
    put_inputs(batch, batch_, upload);
    put_targets(batch, batch_, upload);
    batch_.inv_num_targets =
        1.0f / static_cast<float>(std::max<std::int64_t>(1, batch.target_shape.num_elems()));
  }

  /// Times a block on the output of the previous block, and keeps its output.
  BlockTime measure(const Block& block, int index) {
    WorkingParameters parameters(ctx_, block, options_.precision.compute_dtype());
    BlockTime best{block.name(), std::numeric_limits<double>::infinity(),
                   std::numeric_limits<double>::infinity()};
    Activations output;
    double spent_ms = 0.0;
    for (int repeat = 0; repeat <= options_.repeats || spent_ms < kEnoughMs; ++repeat) {
      const BlockTime time = run_once(block, index, parameters, output);
      spent_ms += time.total_ms();
      if (repeat == 0) continue;  // caches are cold, libraries compile
      best.forward_ms = std::min(best.forward_ms, time.forward_ms);
      best.backward_ms = std::min(best.backward_ms, time.backward_ms);
    }
    activations_ = std::move(output);
    return best;
  }

  const Activations& activations() const { return activations_; }

 private:
  using Clock = std::chrono::steady_clock;

  Clock::time_point now() const {
    ctx_.backend->synchronize(ctx_.exec);
    return Clock::now();
  }

  BlockTime run_once(const Block& block, int index, WorkingParameters& parameters, Activations& output) {
    Tape tape(options_.recompute);
    Context ctx = ctx_;
    ctx.parameters = &parameters;
    ctx.tape = &tape;
    ctx.rng = {};
    ctx.rng.block = static_cast<std::uint16_t>(index);
    Activations inputs;
    std::vector<ValueId> input_ids;
    for (const Tensor& input : activations_) {
      inputs.push_back(tape.watch(input));
      input_ids.push_back(inputs.back().id());
    }
    const Clock::time_point start = now();
    const Activations outputs = block.forward(ctx, inputs, batch_);
    const Clock::time_point between = now();
    output.clear();
    std::vector<Tape::Seed> seeds;
    for (const Tensor& tensor : outputs) {
      output.push_back(tensor.detach());
      if (tensor.id() == kNoValue) continue;
      // A loss has the gradient 1. For other outputs any gradient will do, and the output itself has the
      // right shape and dtype.
      const bool is_loss = tensor.num_elems() == 1;
      seeds.push_back({tensor.id(), is_loss ? Tensor{} : output.back()});
    }
    tape.backward(ctx, std::move(seeds), input_ids);
    const std::chrono::duration<double, std::milli> forward = between - start, backward = now() - between;
    return {block.name(), forward.count(), backward.count()};
  }

  const BlockTimesOptions& options_;
  Context ctx_;
  Batch batch_;
  Activations activations_;  // output of the previous block; empty before the first
};

}  // namespace

bool is_twin(const Block& a, const Block& b) {
  const auto equal = [](const ParameterSpec& x, const ParameterSpec& y) {
    return x.name == y.name && x.shape == y.shape;
  };
  return typeid(a) == typeid(b) && a.variant() == b.variant() &&
         std::ranges::equal(a.parameters(), b.parameters(), equal);
}

std::vector<int> kinds_of(const BlockList& blocks, const ParameterRules& rules) {
  std::vector<std::vector<bool>> frozen(blocks.size());
  std::vector<int> kinds;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    for (const ParameterSpec& spec : blocks[b]->parameters()) {
      frozen[b].push_back(is_frozen(rules, whole_name(spec.slice, blocks[b]->full_name(spec))));
    }
    std::size_t first = 0;
    while (first < b && (!is_twin(*blocks[first], *blocks[b]) || frozen[first] != frozen[b])) ++first;
    kinds.push_back(static_cast<int>(first));
  }
  return kinds;
}

std::vector<BlockTime> measure_block_times(const BlockList& blocks, const HostBatch& batch,
                                           const BlockTimesOptions& options) {
  TRIREME_CHECK(options.repeats >= 1, "block times: {} repeats; it takes 1 or more", options.repeats);
  Profiler profiler(batch, options);
  std::vector<BlockTime> times;
  std::size_t measured = 0;       // the last measured block
  Activations input_of_measured;  // the input of that block
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const Block& block = *blocks[i];
    if (i > 0 && is_twin(block, *blocks[measured]) &&
        same_shapes(profiler.activations(), input_of_measured)) {
      times.push_back(times[measured]);
      times.back().block = block.name();
      continue;
    }
    try {
      input_of_measured = profiler.activations();
      times.push_back(profiler.measure(block, static_cast<int>(i)));
      measured = i;
    } catch (const Error& e) {
      throw Error(e.code(), fmt::format("measuring block '{}': {}", block.name(), e.what()), e.where());
    }
  }
  return times;
}

std::vector<double> time_costs(const std::vector<BlockTime>& times) {
  std::vector<double> costs;
  for (const BlockTime& time : times) costs.push_back(time.total_ms());
  return costs;
}

}  // namespace trireme
