#include "parallel/foresee/plan_price.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/gpt.h"
#include "parallel/cluster/exchange_time.h"
#include "parallel/foresee/op_calls.h"
#include "parallel/foresee/short_step.h"
#include "parallel/foresee/step_price.h"
#include "parallel/reduce/reduction_tree.h"
#include "runtime/base/error.h"
#include "tests/support/small_cluster.h"

namespace trireme {
namespace {

class PlanPriceTest : public ::testing::Test {
 protected:
  PlanPriceTest() {
    const GptConfig config{.layers = 4, .hidden = 32, .heads = 4, .vocab = 128, .seq_len = 16};
    job_.blocks = std::make_shared<const BlockList>(build_gpt(config));
    job_.options.global_batch = 8;
    job_.options.micro_batch = 2;
    job_.sample = {.input = {16}, .target = {16}};
    device().peak_tflops = {{"fp32", 10}};
  }
  void use_tensor_chunks(int layers) {
    const GptConfig config{
        .layers = layers, .hidden = 32, .heads = 4, .vocab = 128, .seq_len = 16, .tensor_chunks = 2};
    job_.blocks = std::make_shared<const BlockList>(build_gpt(config));
  }
  ClusterDevice& device() { return cluster_.devices[0]; }
  PlanPrice price() { return price_plan(job_, engine_on_meta(job_)->plan(), cluster_, device()); }

  Cluster cluster_ = testing::small_cluster();
  PlannedJob job_;
};

TEST_F(PlanPriceTest, OneRankTakesTheTimeOfItsCalls) {
  double seconds = 0;
  const OpTimes times(cluster_, device());
  for (const OpCall& call : record_step(job_).calls) seconds += times.seconds(call.shape);
  const PlanPrice one = price();
  EXPECT_NEAR(one.step_ms, 1e3 * seconds, 1e-9 * 1e3 * seconds);
  EXPECT_EQ(one.exposed_ms, 0);
  EXPECT_NEAR(one.bubble_share, 0, 1e-12);
  EXPECT_NEAR(one.mfu, 3 * one.forward_operations * 8 / (seconds * 10e12), 1e-12);
}

// Only a few of many micro-batches are recorded; the others have their mean.
TEST_F(PlanPriceTest, ManyMicroBatchesAreAsManyTimesAsLong) {
  job_.options.global_batch = 32;  // 16 micro-batches, 8 recorded
  const double sixteen = price().step_ms;
  job_.options.global_batch = 64;
  const double thirty_two = price().step_ms;
  double seconds = 0;
  const OpTimes times(cluster_, device());
  for (const OpCall& call : record_step(job_).calls) seconds += times.seconds(call.shape);
  EXPECT_NEAR(thirty_two, 1e3 * seconds, 0.02 * 1e3 * seconds);
  EXPECT_LT(thirty_two, 2 * sixteen);
}

TEST_F(PlanPriceTest, ExchangesAreHiddenWhereTheyMayOverlap) {
  job_.num_ranks = 2;
  cluster_.links[0].gb_s = 0.1;
  cluster_.host.overlap = 1;
  const PlanPrice hidden = price();
  cluster_.host.overlap = 0;
  const PlanPrice exposed = price();
  EXPECT_GT(hidden.exposed_ms, 0);
  EXPECT_GE(exposed.step_ms, hidden.step_ms);
  EXPECT_NEAR(exposed.compute_ms, hidden.compute_ms, 1e-9);
  const auto sent =
      static_cast<double>(predict_step(job_.blocks, job_.options, job_.sample, job_.num_ranks, 0).sent_bytes);
  const double wire_ms = sent / 0.1e9 * 1e3;
  EXPECT_GT(exposed.exposed_ms, wire_ms);
  EXPECT_LT(exposed.exposed_ms, wire_ms + 0.5);  // latencies of 10 us
}

TEST_F(PlanPriceTest, APipelineHasItsBubble) {
  job_.num_ranks = 2;
  const double data = price().bubble_share;
  job_.options.layout.pipeline = 2;
  job_.options.layout.cut = {3};
  const PlanPrice pipeline = price();
  EXPECT_GT(pipeline.bubble_share, data + 0.05);
  EXPECT_LT(pipeline.bubble_share, 0.6);
  EXPECT_GT(pipeline.step_ms, pipeline.compute_ms);
  EXPECT_GT(pipeline.exposed_ms, 0);
}

TEST_F(PlanPriceTest, RecomputeTakesLongerAndZeroSendsMore) {
  const double plain = price().step_ms;
  job_.options.layout.recompute_every = 1;
  EXPECT_GT(price().step_ms, 1.1 * plain);
  job_.options.layout.recompute_every = 0;
  job_.num_ranks = 2;
  cluster_.host.overlap = 0;
  const double zero0 = price().exposed_ms;
  job_.options.layout.zero = ZeroStage::kParameters;
  EXPECT_GT(price().exposed_ms, 1.5 * zero0);
}

TEST_F(PlanPriceTest, RanksThatShareCoresTakeTheirTurns) {
  job_.num_ranks = 4;
  const PlanPrice own = price();
  device().threads = 1;
  cluster_.host.cores = 4;
  EXPECT_EQ(price().step_ms, own.step_ms);
  cluster_.host.cores = 2;  // four ranks that are busy at once take twice as long, and communicate as before
  EXPECT_NEAR(price().step_ms, 2 * (own.step_ms - own.exposed_ms) + own.exposed_ms, 0.01 * own.step_ms);
  job_.options.layout.pipeline = 4;
  job_.options.layout.cut = {1, 3, 5};  // others compute while a stage waits
  const double shared = price().step_ms;
  cluster_.host.waiting_share = 0.5;  // waiting stages take cores from computing ones
  const double with_waits = price().step_ms;
  cluster_.host.cores = 4;
  const double alone = price().step_ms;
  EXPECT_GT(shared, 1.01 * alone);
  EXPECT_LT(shared, 1.6 * alone);
  EXPECT_GT(with_waits, 1.05 * shared);
  EXPECT_LT(with_waits, 2 * alone);
}

TEST_F(PlanPriceTest, AFoldedPlanTakesTheTimeOfTheWhole) {
  const GptConfig config{
      .layers = 4, .hidden = 32, .heads = 4, .vocab = 128, .seq_len = 16, .tied = true, .tensor_chunks = 4};
  job_.blocks = std::make_shared<const BlockList>(build_gpt(config));
  job_.num_ranks = 16;
  job_.options.global_batch = 32;
  for (const int tensor : {1, 2, 4}) {
    for (const int stages : {1, 2, 4}) {
      for (const ZeroStage zero : {ZeroStage::kNone, ZeroStage::kParameters}) {
        job_.options.layout.tensor = tensor;
        job_.options.layout.pipeline = stages;
        job_.options.layout.zero = zero;
        if (32 % (2 * 16 / tensor / stages) != 0) continue;
        const PlanPrice whole = price(), folded = price_layout(job_, cluster_, device());
        EXPECT_NEAR(folded.step_ms, whole.step_ms, 1e-9 * whole.step_ms) << tensor << " " << stages;
        EXPECT_NEAR(folded.exposed_ms, whole.exposed_ms, 1e-9 * whole.step_ms);
        EXPECT_NEAR(folded.bubble_share, whole.bubble_share, 0.05);
      }
    }
  }
}

TEST_F(PlanPriceTest, AMissingLinkIsNamed) {
  job_.num_ranks = 2;
  device().inside.clear();
  EXPECT_THAT([&] { price(); }, ::testing::ThrowsMessage<Error>(::testing::HasSubstr("inside = \"LINK\"")));
}

// A stage with the blocks of another one, moved, has its times. It is recorded on its own if the other stage
// has one block more.
TEST_F(PlanPriceTest, StagesOfTwinsHaveEqualTimes) {
  use_tensor_chunks(8);
  job_.num_ranks = 16;
  job_.options.global_batch = 16;
  job_.options.layout.tensor = 2;
  job_.options.layout.zero = ZeroStage::kParameters;
  job_.options.layout.pipeline = 4;
  job_.options.layout.cut = {3, 5, 7};
  const StepPrice moved(job_, cluster_, device());
  const StepPlan plan = engine_on_meta(job_)->plan();
  job_.options.layout.cut = {2, 5, 7};
  const StepPrice recorded(job_, cluster_, device());
  int compared = 0;
  for (int rank = 0; rank < job_.num_ranks; ++rank) {
    const Coord coord = plan.mesh.coord(rank);
    if (coord[Axis::kPipeline] != 2) continue;
    for (const Action& action : plan.ranks[static_cast<std::size_t>(rank)].actions) {
      const ActionTime a = moved.of(coord, action), b = recorded.of(coord, action);
      EXPECT_DOUBLE_EQ(a.compute_ms, b.compute_ms) << name(action.kind) << " " << action.unit;
      EXPECT_DOUBLE_EQ(*a.exchange_ms, *b.exchange_ms) << name(action.kind) << " " << action.unit;
      compared += a.compute_ms > 0 || *a.exchange_ms > 0;
    }
  }
  EXPECT_GT(compared, 100);
}

// Exchanges between tensor ranks block: on a link without latency, bytes divided by the rate.
TEST_F(PlanPriceTest, ExchangesOverTheTensorAxisAreWaitedFor) {
  use_tensor_chunks(4);
  job_.num_ranks = job_.options.layout.tensor = 2;
  cluster_.links[0].latency_us = 1e-3;
  cluster_.host.overlap = 1;  // which does not apply to these exchanges
  for (const bool sequence : {false, true}) {
    job_.options.layout.sequence = sequence;
    cluster_.links[0].gb_s = 1e6;
    const double fast_ms = price().step_ms;
    cluster_.links[0].gb_s = 0.1;
    const PlanPrice slow = price();
    const StepPrediction step = predict_step(job_.blocks, job_.options, job_.sample, job_.num_ranks, 0);
    const double wire_ms = static_cast<double>(step.sent_bytes) / 0.1e9 * 1e3;
    EXPECT_NEAR(slow.step_ms - fast_ms, wire_ms, 0.02 * wire_ms) << sequence;
    EXPECT_NEAR(slow.exposed_ms, wire_ms, 0.02 * wire_ms) << sequence;
  }
}

// Each axis has its own communicator: gradients in flight do not delay the next block's sums.
TEST_F(PlanPriceTest, AndForNoExchangeOverTheDataAxis) {
  use_tensor_chunks(4);
  job_.num_ranks = 4;
  job_.options.layout.tensor = 2;
  job_.options.micro_batch = 4;
  job_.options.hosts = hosts_of(4, 2);
  cluster_.ranks_per_node = 2;
  const auto last_backward_ms = [&](double gb_s) {
    cluster_.links[1].gb_s = gb_s;
    const StepPlan plan = engine_on_meta(job_)->plan();
    const PlanPrice priced = price_plan(job_, plan, cluster_, device(), KeepTimeline::kYes);
    double end_ms = 0;
    for (const TimelineSpan& span : priced.timeline.spans) {
      if (span.spent == TimeSpent::kBackward) end_ms = std::max(end_ms, span.end_ms);
    }
    return std::pair(end_ms, priced.step_ms);
  };
  const auto [fast, fast_step] = last_backward_ms(1e6);
  const auto [slow, slow_step] = last_backward_ms(1e-3);
  EXPECT_GT(slow_step, 2 * fast_step);
  EXPECT_DOUBLE_EQ(slow, fast);
}

// [Note: canonical reduction] 12 micro-batches of a rank leave two partial sums, 16 leave one, however few
// are recorded. With odd numbers, and if some ranks have one more than others, another rank may leave the
// most.
TEST_F(PlanPriceTest, EachPartialSumIsExchanged) {
  cluster_.links[0].gb_s = 0.01;
  cluster_.host.overlap = 0;
  for (const auto& [ranks, micro_batches] :
       {std::pair(2, 24), {2, 32}, {2, 80}, {2, 74}, {4, 500}, {3, 333}, {3, 100}, {4, 125}}) {
    SCOPED_TRACE(fmt::format("{} ranks, {} micro-batches", ranks, micro_batches));
    job_.num_ranks = ranks;
    job_.options.global_batch = 2 * micro_batches;
    const auto sent = static_cast<double>(
        predict_step(job_.blocks, job_.options, job_.sample, job_.num_ranks, 0).sent_bytes);
    const double wire_ms = sent / 0.01e9 * 1e3;
    EXPECT_NEAR(price().exposed_ms, wire_ms, 0.05 * wire_ms);
  }
}

// Times come from a few micro-batches, and bounds from even fewer.
TEST_F(PlanPriceTest, AShortStepExchangesNoMoreThanTheWhole) {
  job_.num_ranks = 4;
  for (int micro_batches = 4; micro_batches < 600; micro_batches += 7) {
    job_.options.global_batch = 2 * micro_batches;
    for (const int stages : {1, 2}) {
      SCOPED_TRACE(fmt::format("{} micro-batches, {} stages", micro_batches, stages));
      job_.options.layout.pipeline = stages;
      const auto partials = [&](const PlannedJob& job) {
        const BatchLayout batch{
            .global_batch = job.options.global_batch, .micro_batch = 2, .data_ranks = 4 / stages};
        std::size_t most = 0, all = 0;
        for (int rank = 0; rank < batch.data_ranks; ++rank) {
          const std::size_t num = partial_sums(batch.first_of(rank), batch.count_of(rank)).size();
          most = std::max(most, num);
          all += num;
        }
        EXPECT_EQ(batch.num_micro_batches() % batch.data_ranks, micro_batches % batch.data_ranks);
        return std::pair(most, all);
      };
      const auto [most, all] = partials(job_);
      const PlannedJob priced = short_step(job_, 8, Shortened::kAsWhole);
      EXPECT_LE(priced.options.global_batch, job_.options.global_batch);
      EXPECT_EQ(partials(priced).first, most);
      const PlannedJob bound = short_step(job_, 1, Shortened::kNoLonger);
      EXPECT_LE(bound.options.global_batch, 2 * (17 * 4 / stages));
      EXPECT_LE(partials(bound).first, most);
      EXPECT_LE(partials(bound).second, all);
    }
  }
}

}  // namespace
}  // namespace trireme
