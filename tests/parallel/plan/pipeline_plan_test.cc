// Plans of pipelines: the planner's plans are valid for every configuration, and complete when played.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <set>

#include "parallel/comm/local.h"
#include "parallel/plan/validate.h"
#include "parallel/run/engine.h"
#include "runtime/base/error.h"
#include "tests/support/sanitized.h"
#include "tests/support/tiny_gpt.h"

namespace trireme {
namespace {

using enum ActionKind;
using Random = std::mt19937;

int draw(Random& random, int least, int most) {
  return least + static_cast<int>(random() % static_cast<unsigned>(most - least + 1));
}

// Draws small numbers more often than large ones, because plans grow with their product.
int draw_small(Random& random, int most) {
  return draw(random, 1, draw(random, 1, most));
}

// For one chunk per rank.
PipelineSchedule draw_schedule(Random& random) {
  using enum PipelineSchedule;
  return std::array{kGpipe, kOneForwardOneBackward,
                    kZeroBubbleH1}[static_cast<std::size_t>(draw(random, 0, 2))];
}

struct Case {
  Mesh mesh;
  BatchLayout batch;
  PlanOptions options;
  std::string text;
};

std::vector<int> draw_cut(Random& random, int num_units, int chunks) {
  std::set<int> firsts;
  while (static_cast<int>(firsts.size()) < chunks - 1) firsts.insert(draw(random, 1, num_units - 1));
  return {firsts.begin(), firsts.end()};
}

Case draw_case(Random& random) {
  Case c;
  const int p = c.mesh[Axis::kPipeline] = draw(random, 1, 16);
  c.mesh[Axis::kData] = draw_small(random, 3);
  const int v = p > 1 && draw(random, 0, 1) == 1 ? draw(random, 2, 4) : 1;
  const int m = v > 1 ? p + draw_small(random, std::max(1, 64 - p)) - 1 : draw_small(random, 64);
  const int num_units = p * v + draw(random, 0, 2 * p);
  const int zero = draw(random, 0, 3);
  c.options.layout.zero = static_cast<ZeroStage>(zero);
  c.options.layout.accumulate_unsharded = zero >= 2 && draw(random, 0, 1) == 0;
  c.options.layout.recompute_every = draw(random, 0, std::min(3, std::max(num_units, 2) - 1));
  c.options.layout.prefetch_depth = draw(random, 0, 3);
  c.options.layout.keep_gathered = draw(random, 0, 1) == 1;
  c.options.layout.schedule = v > 1 ? PipelineSchedule::kInterleaved : draw_schedule(random);
  const StageCounts cut{.num_units = num_units, .pipeline = p, .chunks = v};
  c.options.stages = StageMap::given(cut, draw_cut(random, num_units, p * v));
  if (c.options.stages.stage_of(num_units - 1) != c.options.stages.stage_of(0)) {
    c.options.ties = {{.owner = 0, .user = num_units - 1}};
  }
  c.batch = {.global_batch = m * c.mesh.size(Axis::kData),
             .data_ranks = c.mesh.size(Axis::kData),
             .assignment = c.options.layout.reduces_each_micro_batch() ? Assignment::kStrided
                                                                       : Assignment::kContiguous};
  c.text = fmt::format("{} stages of {} x {} ranks, {}, {} units, {} micro-batches, zero {}, recompute {}", p,
                       v, c.mesh.size(Axis::kData), name(c.options.layout.schedule), num_units, m, zero,
                       c.options.layout.recompute_every);
  return c;
}

TEST(PipelinePlan, AThousandRandomConfigurationsAreValid) {
  Random random(1);
  for (int i = 0; i < (testing::kSanitized ? 200 : 1000); ++i) {
    const Case c = draw_case(random);
    const int num_units = c.options.stages.num_units();
    const auto error = find_plan_error(plan_training_step(num_units, c.mesh, c.batch, c.options));
    ASSERT_FALSE(error.has_value()) << c.text << ": " << error->message;
    BatchLayout samples = c.batch;
    samples.assignment = Assignment::kContiguous;
    samples.global_batch += draw(random, 0, 3) - 1;
    if (samples.global_batch < 1) continue;
    for (const bool of_averages : {false, true}) {
      PlanOptions options = c.options;
      options.evaluates_averages = of_averages;
      const auto evaluation = find_plan_error(plan_evaluation(num_units, c.mesh, samples, options));
      ASSERT_FALSE(evaluation.has_value())
          << c.text << ", evaluation" << (of_averages ? " of averages: " : ": ") << evaluation->message;
    }
  }
}

// One step of a tiny GPT.
void play(const EngineOptions& options, const std::shared_ptr<const BlockList>& blocks, int ranks) {
  const GptConfig config = testing::tiny_gpt_config();
  run_local_ranks(ranks, [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(blocks, comm, options);
    engine.step(testing::token_source(config.vocab, config.seq_len, 0), options.global_batch * config.seq_len,
                1e-3);
  });
}

std::shared_ptr<const BlockList> tiny_blocks(int layers) {
  GptConfig config = testing::tiny_gpt_config();
  config.layers = layers;
  config.hidden = 8;
  return std::make_shared<const BlockList>(build_gpt(config));
}

EngineOptions tiny_options(int micro_batches, int data) {
  const Shape tokens{testing::tiny_gpt_config().seq_len};
  return {.global_batch = micro_batches * data,
          .micro_batch = 1,
          .sample = SampleSpec{.input = tokens, .target = tokens}};
}

TEST(PipelinePlan, AHundredRandomConfigurationsEnd) {
  Random random(2);
  for (int i = 0; i < 100; ++i) {
    const int stages = draw(random, 2, 5), data = draw(random, 1, 2);
    const int chunks = draw(random, 0, 1) == 1 ? draw(random, 2, 3) : 1;
    EngineOptions options = tiny_options(stages + draw(random, chunks > 1 ? 0 : 1 - stages, 4), data);
    const int layers = std::max(1, stages * chunks - 2) + draw(random, 0, 3);
    options.layout.pipeline = stages;
    options.layout.schedule = chunks > 1 ? PipelineSchedule::kInterleaved : draw_schedule(random);
    options.layout.chunks = chunks;
    options.layout.cut = draw_cut(random, layers + 2, stages * chunks);
    options.layout.zero = static_cast<ZeroStage>(draw(random, 0, 3));
    options.layout.recompute_every = draw(random, 0, 2);
    options.layout.prefetch_depth = draw(random, 0, 2);
    options.layout.keep_gathered = draw(random, 0, 1) == 1;
    EXPECT_NO_THROW(play(options, tiny_blocks(layers), stages * data))
        << i << ": " << stages << " x " << chunks << ", " << name(options.layout.schedule);
  }
}

// A micro-batch is alive from its Forward until nothing of it remains, for the first unit of each stage.
std::vector<int> most_alive(const StepPlan& plan) {
  std::vector<int> most;
  for (int s = 0; s < plan.mesh.size(Axis::kPipeline); ++s) {
    int alive = 0, largest = 0;
    const int first = plan.stages.first_unit(s);
    for (const Action& a : plan.ranks[static_cast<std::size_t>(s)].actions) {
      if (a.kind == kForward && a.unit == first) largest = std::max(largest, ++alive);
      if (traits(a.kind).sums_gradient && a.unit == first) --alive;
    }
    most.push_back(largest);
  }
  return most;
}

TEST(PipelinePlan, AliveMicroBatchesAreThoseOfTheSchedule) {
  using enum PipelineSchedule;
  const auto alive_of = [](PipelineSchedule schedule, std::int64_t micro_batches) {
    return most_alive(plan_training_step(8, {{Axis::kPipeline, 4}}, {.global_batch = micro_batches},
                                         {.layout = {.schedule = schedule}}));
  };
  EXPECT_EQ(alive_of(kGpipe, 8), (std::vector<int>{8, 8, 8, 8}));
  EXPECT_EQ(alive_of(kOneForwardOneBackward, 8), (std::vector<int>{4, 3, 2, 1}));
  EXPECT_EQ(alive_of(kZeroBubbleH1, 8), (std::vector<int>{4, 4, 4, 4}));
  EXPECT_EQ(alive_of(kOneForwardOneBackward, 2), (std::vector<int>{2, 2, 2, 1}));
  EXPECT_EQ(alive_of(kZeroBubbleH1, 2), (std::vector<int>{2, 2, 2, 2}));
}

}  // namespace
}  // namespace trireme
