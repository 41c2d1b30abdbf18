#include "tests/support/optimizer_jobs.h"

#include <cmath>
#include <mutex>

#include "parallel/foresee/predict.h"

namespace trireme::testing {
namespace {

Values values_of(const Engine& engine, const auto& flat_of) {
  Values values;
  for (std::size_t g = 0; g < engine.layout().groups.size(); ++g) {
    for (const ParamSlot& slot : engine.layout().groups[g].slots) {
      const Tensor& flat = flat_of(static_cast<int>(g));
      values[slot.name] = engine.context().to_host(flat.slice(slot.offset, slot.shape));
    }
  }
  return values;
}

}  // namespace

EngineOptions OptimizerJob::options(const PipelineLayout& layout) const {
  EngineOptions options = layout.options();
  options.optimizer = optimizer;
  options.own_optimizer = own_optimizer;
  options.ema = ema;
  options.precision = precision;
  options.loss_scale = loss_scale;
  return options;
}

PipelineOutcome train_job(const OptimizerJob& job, PipelineLayout layout, std::int64_t steps) {
  layout.precision = job.precision;
  const auto blocks = std::make_shared<const BlockList>(build_gpt(layout.model()));
  const EngineOptions options = job.options(layout);
  PipelineOutcome outcome;
  std::mutex mutex;
  run_local_ranks(layout.ranks(), [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(blocks, comm, options);
    const StepPrediction predicted =
        predict_step(blocks, options, *options.sample, layout.ranks(), comm->rank());
    StepResult result = train(engine, layout, steps);
    result.memory.peak[MemoryCategory::kWorkspace] = 0;
    const PipelineOutcome mine = outcome_of(engine, layout, result);
    const std::lock_guard lock(mutex);
    EXPECT_EQ(result.memory.peak.bytes, predicted.memory.peak.bytes) << layout.to_string();
    EXPECT_EQ(result.memory.peak_total, predicted.memory.peak_total) << layout.to_string();
    EXPECT_EQ(result.sent_bytes, predicted.sent_bytes) << layout.to_string();
    if (comm->rank() == 0) outcome = mine;
  });
  return outcome;
}

void expect_equal_states(const OptimizerJob& job, const std::vector<PipelineLayout>& layouts) {
  const PipelineOutcome expected = train_job(job, {}, 3);
  EXPECT_TRUE(std::isfinite(expected.loss));
  for (const PipelineLayout& layout : layouts) {
    EXPECT_TRUE(train_job(job, layout, 3) == expected) << layout.to_string();
  }
}

std::vector<PipelineLayout> layouts_of_whole_states() {
  using enum PipelineSchedule;
  return {{.data = 2},
          {.data = 4, .recompute = 1},
          {.data = 2, .group_min_bytes = 1 << 14},
          {.stages = 2, .schedule = kGpipe},
          {.stages = 2, .data = 2},
          {.stages = 4, .recompute = 1},
          {.stages = 2, .schedule = kInterleaved, .chunks = 2},
          {.stages = 2, .data = 2, .schedule = kZeroBubbleH1}};
}

std::vector<PipelineLayout> layouts_of_shards() {
  using enum PipelineSchedule;
  return {{.data = 4, .zero = 1, .recompute = 1},
          {.data = 2, .zero = 2, .group_min_bytes = 1 << 14},
          {.data = 4, .zero = 2, .accumulate_unsharded = true},
          {.data = 4, .zero = 3, .recompute = 2},
          {.data = 2, .zero = 3, .keep_gathered = true},
          {.stages = 2, .data = 2, .zero = 1},
          {.stages = 2, .data = 2, .zero = 3},
          {.stages = 2, .data = 2, .schedule = kZeroBubbleH1, .zero = 2}};
}

Values masters_of(const Engine& engine) {
  return values_of(engine, [&](int g) -> const Tensor& { return engine.parameters().master(g); });
}

Values averages_of(const Engine& engine) {
  return values_of(engine, [&](int g) -> const Tensor& { return engine.parameters().average(g); });
}

Values states_of(const Engine& engine, int index) {
  return values_of(engine, [&](int g) -> const Tensor& { return engine.parameters().state(g, index); });
}

ObservedStep observe_step(Engine& engine, const PipelineLayout& layout, double lr) {
  ObservedStep step;
  engine.observe_gradients([&](const std::string& name, const Tensor& gradient) {
    step.gradients[name] = engine.context().to_host(gradient);
  });
  step.before = masters_of(engine);
  engine.step(token_source(layout.gpt.vocab, layout.gpt.seq_len, engine.steps_done() * layout.global_batch),
              layout.global_batch * layout.gpt.seq_len, lr);
  step.after = masters_of(engine);
  engine.observe_gradients(nullptr);
  return step;
}

}  // namespace trireme::testing
