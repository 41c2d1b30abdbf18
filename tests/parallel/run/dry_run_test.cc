// A dry run makes every planned library call of the rank's step, and leaves nothing behind. Its purpose is
// tested over emulated NCCL (tests/parallel/comm/nccl_pipeline_test.cc).
#include "parallel/run/dry_run.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "parallel/foresee/predict.h"
#include "tests/support/tiny_gpt.h"
#include "tests/support/tiny_resnet.h"

namespace trireme {
namespace {

std::set<std::string>& seen() {
  thread_local std::set<std::string> calls;
  return calls;
}

// The inputs that a library's plan may depend on.
template <class Args>
std::string text_of(Args args) {
  std::string text = Args::kName;
  visit_views(args, [&text](const auto& view, ViewUse) {
    text += view.defined() ? fmt::format(" {}{}", name(view.dtype), view.shape.to_string()) : " none";
  });
  if constexpr (requires { args.mode; }) text += fmt::format(" mode {}", static_cast<int>(args.mode));
  return text;
}

template <class... Planned>
Backend noting_backend() {
  Backend backend = meta_backend();
  (backend.ops.set<Planned>([](const KernelContext&, const Planned& args) { seen().insert(text_of(args)); }),
   ...);
  return backend;
}

const Backend& noting() {
  static const Backend backend = noting_backend<MatmulArgs, AttentionFwdArgs, AttentionBwdArgs, Conv2dFwdArgs,
                                                Conv2dBwdDataArgs, Conv2dBwdWeightArgs>();
  return backend;
}

struct Job {
  std::shared_ptr<const BlockList> blocks;
  SampleSpec sample;
  PrecisionMode mode = PrecisionMode::kFp32;
  Layout layout;
};

void expect_covered(const Job& job) {
  EngineOptions options{.global_batch = 8,
                        .micro_batch = 2,
                        .layout = job.layout,
                        .sample = job.sample,
                        .precision = Precision(job.mode),
                        .backend = &noting()};
  const int ranks = job.layout.pipeline;
  for (int rank = 0; rank < ranks; ++rank) {
    seen().clear();
    (void)predict_step(job.blocks, options, job.sample, ranks, rank);
    const std::set<std::string> step = seen();
    ASSERT_FALSE(step.empty());

    const auto engine = engine_on_meta({job.blocks, options, job.sample, ranks}, rank);
    Context ctx = Context::create({DeviceType::kMeta}, 1, std::nullopt, &noting());
    ctx.precision = options.precision;
    BoundaryShapes shapes(*job.blocks, options.precision, job.sample);
    seen().clear();
    DryRun dry_run({.ctx = ctx,
                    .blocks = *job.blocks,
                    .stages = engine->stages(),
                    .stage = rank,
                    .shapes = shapes,
                    .sample = job.sample,
                    .recomputes = job.layout.recomputes_segments(),
                    .two_part_backward = job.layout.schedule == PipelineSchedule::kZeroBubbleH1});
    dry_run.cover({.num_samples = 2, .training = true});
    for (const std::string& call : step) {
      EXPECT_TRUE(seen().contains(call))
          << "rank " << rank << " of " << ranks << ", " << name(job.layout.schedule) << ": " << call;
    }
    EXPECT_EQ(ctx.allocator->stats().current.with_workspaces(), 0) << "left behind";
    seen().clear();
    dry_run.cover({.num_samples = 2, .training = true});
    dry_run.cover({.num_samples = 0, .training = false});
    EXPECT_TRUE(seen().empty()) << "once is enough";
    dry_run.cover({.num_samples = 1, .training = false});
    EXPECT_FALSE(seen().empty());
  }
}

constexpr PipelineSchedule kSchedules[] = {PipelineSchedule::kOneForwardOneBackward,
                                           PipelineSchedule::kZeroBubbleH1};

TEST(DryRun, MakesTheCallsOfAGptsStep) {
  for (const float dropout : {0.0f, 0.1f}) {
    GptConfig config = testing::tiny_gpt_config();
    config.dropout = dropout;
    const auto blocks = std::make_shared<const BlockList>(build_gpt(config));
    const Shape tokens{config.seq_len};
    for (const PipelineSchedule schedule : kSchedules) {
      for (const PrecisionMode mode : {PrecisionMode::kFp32, PrecisionMode::kBf16}) {
        for (const int recompute : {0, 1}) {
          expect_covered({.blocks = blocks,
                          .sample = {.input = tokens, .target = tokens},
                          .mode = mode,
                          .layout = {.pipeline = 2, .schedule = schedule, .recompute_every = recompute}});
        }
      }
    }
  }
}

TEST(DryRun, MakesTheCallsOfAResNetsStep) {
  const auto blocks = std::make_shared<const BlockList>(build_resnet(testing::tiny_resnet_config()));
  for (const PipelineSchedule schedule : kSchedules) {
    expect_covered({.blocks = blocks,
                    .sample = {.input = {testing::kTinyPixels, testing::kTinyPixels, 3},
                               .input_dtype = DType::kFloat32,
                               .target = {}},
                    .mode = PrecisionMode::kFp16,
                    .layout = {.pipeline = 2, .schedule = schedule}});
  }
}

}  // namespace
}  // namespace trireme
