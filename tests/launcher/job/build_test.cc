#include "launcher/job/build.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/config/field_keys.h"
#include "launcher/keys/job_file.h"
#include "tests/launcher/config/error_matchers.h"
#include "tests/launcher/job/cut_engine_options.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

TEST(Build, SizeFillsWhatTheJobLeavesOpen) {
  JobConfig config;
  config.data.train = "tokens";
  config.model.size = "124m";
  config.model.seq_len = 512;
  const ModelSection model = resolve(config).model;
  EXPECT_EQ(model.layers, 12);
  EXPECT_EQ(model.hidden, 768);
  EXPECT_EQ(model.heads, 12);
  EXPECT_EQ(model.vocab, 50257);
  EXPECT_EQ(model.seq_len, 512);
  EXPECT_EQ(build_blocks(model)->size(), 14u);
}

TEST(Build, ResolvedJobsResolveToThemselves) {
  JobConfig config;
  config.data.kind = DataKind::kSynthetic;
  config.model.size = "13b";
  const JobConfig resolved = resolve(config);
  EXPECT_EQ(to_toml(resolve(resolved)), to_toml(resolved));
}

TEST(Build, TheCutOfAPipeline) {
  JobConfig config;
  config.data.kind = DataKind::kSynthetic;
  config.model = {.layers = 4, .hidden = 16, .heads = 2, .vocab = 32, .seq_len = 8};
  config.parallel.layout.pipeline = 3;
  config.parallel.pipeline_cut = {.kind = PipelineCut::Kind::kListed, .firsts = {2, 4}};
  const JobConfig job = resolve(config);
  EXPECT_EQ(cut_engine_options(job).layout.cut, (std::vector<int>{2, 4}));
  EXPECT_EQ(cut_engine_options(job).layout.pipeline, 3);
  EXPECT_EQ(to_word(parse_config(to_toml(job), "again").parallel.pipeline_cut), "2, 4");
  config.parallel.pipeline_cut = {.kind = PipelineCut::Kind::kBlocks};
  EXPECT_EQ(cut_engine_options(resolve(config)).layout.cut, (std::vector<int>{2, 4}));
  config.model.vocab = 1024;  // the embedding has most parameters, the head most operations
  config.parallel.pipeline_cut = {.kind = PipelineCut::Kind::kParameters};
  EXPECT_EQ(cut_engine_options(resolve(config)).layout.cut, (std::vector<int>{1, 5}));
  config.parallel.pipeline_cut = {.kind = PipelineCut::Kind::kFlops};
  EXPECT_EQ(cut_engine_options(resolve(config)).layout.cut, (std::vector<int>{3, 5}));
  const auto refused = [&](std::int64_t stages, const char* cut) {
    config.parallel.layout.pipeline = stages;
    config.parallel.pipeline_cut = from_word<PipelineCut>(cut);
    return with_keys(error_message([&] { resolve(config); }));
  };
  EXPECT_THAT(refused(7, "flops"), HasSubstr("parallel.pipeline"));
  EXPECT_THAT(refused(7, "parameters"), HasSubstr("parallel.pipeline"));
  EXPECT_THAT(refused(7, "blocks"), HasSubstr("parallel.pipeline"));
  EXPECT_THAT(refused(3, "4, 2"), HasSubstr("parallel.pipeline_cut"));
  EXPECT_THAT(refused(3, "2"), HasSubstr("parallel.pipeline_cut"));
  EXPECT_THAT(refused(2, "6"), HasSubstr("parallel.pipeline_cut"));
}

TEST(Build, OptionsCarryTheJob) {
  JobConfig config;
  config.train = {.global_batch = 64, .micro_batch = 4, .seed = 9};
  config.optimizer = {.name = OptimizerConfig::Kind::kSgd,
                      .weight_decay = 0.5,
                      .momentum = 0.75,
                      .nesterov = true,
                      .grad_clip = 2};
  config.parallel.reduction = Reduction::kFast;
  config.parallel.memory_limit = 1 << 20;
  const EngineOptions options = engine_options(config, BlockList());
  EXPECT_EQ(options.global_batch, 64);
  EXPECT_EQ(options.micro_batch, 4);
  EXPECT_EQ(options.seed, 9u);
  EXPECT_EQ(options.optimizer.kind, OptimizerConfig::Kind::kSgd);
  EXPECT_EQ(options.optimizer.weight_decay, 0.5f);
  EXPECT_EQ(options.optimizer.momentum, 0.75f);
  EXPECT_TRUE(options.optimizer.nesterov);
  EXPECT_EQ(options.grad_clip, 2.0f);
  EXPECT_EQ(options.reduction, Reduction::kFast);
  EXPECT_EQ(options.memory_limit, 1 << 20);

  config.optimizer = {.name = OptimizerConfig::Kind::kAdamW, .betas = {0.5, 0.75}, .epsilon = 0.25};
  config.parallel = {};
  const EngineOptions adamw = engine_options(config, BlockList());
  EXPECT_EQ(adamw.optimizer.kind, OptimizerConfig::Kind::kAdamW);
  EXPECT_EQ(adamw.optimizer.beta1, 0.5f);
  EXPECT_EQ(adamw.optimizer.beta2, 0.75f);
  EXPECT_EQ(adamw.optimizer.epsilon, 0.25f);
  EXPECT_EQ(adamw.reduction, Reduction::kCanonical);
  EXPECT_EQ(adamw.memory_limit, std::nullopt);
  EXPECT_EQ(adamw.ema, 0.0f);

  config.train.ema = 0.75;
  config.optimizer = {.name = OptimizerConfig::Kind::kMuon, .adjust_lr = MuonScale::kMatchRmsAdamW};
  const EngineOptions muon = engine_options(config, BlockList());
  EXPECT_EQ(muon.ema, 0.75f);
  EXPECT_EQ(muon.optimizer.kind, OptimizerConfig::Kind::kMuon);
  EXPECT_EQ(muon.optimizer.muon_scale, MuonScale::kMatchRmsAdamW);
}

TEST(Build, BlocksOfAResNet) {
  const auto blocks = build_blocks({.name = "resnet20", .classes = 7, .label_smoothing = 0.1});
  EXPECT_EQ(blocks->size(), 11u);
  EXPECT_EQ(blocks->back()->parameters()[0].shape, (Shape{7, 64}));
}

JobConfig image_transformer(ModelSection model) {
  JobConfig config;
  config.model = std::move(model);
  config.data.kind = DataKind::kSynthetic;
  return config;
}

TEST(Build, BlocksOfImageTransformers) {
  const JobConfig vit = resolve(image_transformer({.name = "vit", .size = "ti", .pool = "mean"}));
  EXPECT_EQ(vit.model.ffn, 768);
  EXPECT_EQ(vit.model.patch, 16);
  EXPECT_EQ(vit.model.classes, 1000);
  EXPECT_EQ(vit.data.image_size, 224);
  const auto blocks = build_blocks(vit.model);
  EXPECT_EQ(blocks->size(), 14u);
  EXPECT_EQ(blocks->front()->parameters().back().shape, (Shape{1, 196, 192}));
  JobConfig free = image_transformer(
      {.name = "vit", .layers = 2, .hidden = 24, .heads = 2, .patch = 8, .norm_epsilon = 1e-12});
  free.data.image_size = 40;
  free = resolve(free);
  EXPECT_EQ(free.model.image_size, 40);
  EXPECT_EQ(free.model.ffn, 96);
  EXPECT_EQ(build_blocks(free.model)->front()->parameters().back().shape, (Shape{1, 26, 24}));
  const JobConfig cct = resolve(image_transformer({.name = "cct", .size = "7/3x1"}));
  EXPECT_EQ(cct.data.image_size, 32);
  EXPECT_EQ(cct.model.classes, 10);
  EXPECT_EQ(build_blocks(cct.model)->front()->parameters().back().shape, (Shape{256, 256}));
}

TEST(Build, ImagesMustFitTheTransformer) {
  const auto refusal = [](const ModelSection& model, std::int64_t image_size) {
    JobConfig config = image_transformer(model);
    config.data.image_size = image_size;
    return error_message([&] { resolve(config); });
  };
  const ModelSection vit{.name = "vit", .size = "b"};
  EXPECT_THAT(refusal(vit, 225),
              HasSubstr("data.image_size = 225: this side is not a multiple of model.patch = 16 pixels"));
  EXPECT_THAT(refusal(vit, 8),
              HasSubstr("data.image_size = 8: an image of 8 x 8 pixels is smaller than a patch"));
  ModelSection sized = vit;
  sized.image_size = 100;
  EXPECT_THAT(refusal(sized, 0), HasSubstr("model.image_size = 100: this side is not a multiple"));
  sized.image_size = 112;
  EXPECT_THAT(refusal(sized, 224), HasSubstr("data.image_size = 224 is not model.image_size = 112"));
  sized.patch = 14;
  EXPECT_NO_THROW(resolve(image_transformer(sized)));
  EXPECT_THAT(refusal({.name = "cct", .size = "2/3x2", .image_size = 28}, 32),
              HasSubstr("data.image_size = 32 is not model.image_size = 28"));
}

TEST(Build, ScheduleCarriesTheJob) {
  JobConfig config;
  config.train.steps = 100;
  config.optimizer.lr = 0.5;
  config.optimizer.min_lr = 0.25;
  for (const auto& [name, kind] : {std::pair{"constant", LrSchedule::Kind::kConstant},
                                   {"linear", LrSchedule::Kind::kLinear},
                                   {"cosine", LrSchedule::Kind::kCosine},
                                   {"one_cycle", LrSchedule::Kind::kOneCycle}}) {
    config.optimizer.schedule = from_word<LrSchedule::Kind>(name);
    EXPECT_EQ(lr_schedule(config).kind, kind);
  }
  config.optimizer.schedule = LrSchedule::Kind::kLinear;
  EXPECT_EQ(lr_schedule(config).at(0), 0.5);
  EXPECT_EQ(lr_schedule(config).at(1000), 0.25);
}

JobConfig job_of_batch(std::int64_t global_batch, std::int64_t micro_batch) {
  JobConfig config;
  config.train = {.global_batch = global_batch, .micro_batch = micro_batch};
  return config;
}

TEST(Build, StagesAndBatchesThatDivide) {
  for (const int ranks : {1, 2, 4}) EXPECT_EQ(batch_layout(job_of_batch(16, 4), ranks).data_ranks, ranks);
  JobConfig stages = job_of_batch(16, 4);
  stages.parallel.layout.pipeline = 4;
  EXPECT_EQ(batch_layout(stages, 8).data_ranks, 2);
  EXPECT_THAT(with_keys(error_message([&] { batch_layout(stages, 6); })),
              HasSubstr("parallel.pipeline = 4 stages cannot share 6 rank(s) equally"));
}

TEST(Build, TensorRanksThatCannotShareTheModelNameTheKey) {
  const auto job = [](const ModelSection& model, std::int64_t ranks) {
    JobConfig config = job_of_batch(8, 4);
    config.model = model;
    config.data.kind = DataKind::kSynthetic;
    config.parallel.layout.tensor = ranks;
    return config;
  };
  const auto message = [&](const ModelSection& model, std::int64_t ranks) {
    return error_message([&] { resolve(job(model, ranks)); });
  };
  const ModelSection gpt = {.size = "124m", .tensor_chunks = 8};
  EXPECT_NO_THROW(resolve(job(gpt, 4)));
  EXPECT_EQ(message(gpt, 8),
            "parallel.tensor = 8 ranks cannot share model.heads = 12 equally: use a power of two up to 4");
  EXPECT_THAT(message(gpt, 3),
              HasSubstr("parallel.tensor = 3 ranks cannot share model.tensor_chunks = 8 equally"));
  EXPECT_THAT(message({.size = "124m"}, 2),
              HasSubstr("set model.tensor_chunks to a power of two of 2 or more"));
  EXPECT_THAT(message({.name = "llama", .size = "1b", .tensor_chunks = 16}, 16),
              HasSubstr("cannot share model.kv_heads = 8 equally: use a power of two up to 8"));
  EXPECT_THAT(message({.name = "resnet50"}, 2), HasSubstr("a resnet50 cannot be cut into tensor chunks"));
}

TEST(Build, BatchesOfWholeMicroBatchesWithOneForEachRankAreAccepted) {
  for (const std::int64_t global : {1, 5, 10, 16, 24}) {
    for (const std::int64_t micro : {1, 3, 4, 8}) {
      for (const int ranks : {1, 2, 3, 6}) {
        const bool holds = global % micro == 0 && global / micro >= ranks;
        const auto lay_out = [&] { batch_layout(job_of_batch(global, micro), ranks); };
        if (holds) {
          EXPECT_NO_THROW(lay_out()) << global << " " << micro << " " << ranks;
        } else {
          EXPECT_THROW(lay_out(), Error) << global << " " << micro << " " << ranks;
        }
      }
    }
  }
}

TEST(Build, BatchThatDoesNotDivideSaysWhatWould) {
  const auto message = [](std::int64_t global, std::int64_t micro, int ranks) {
    return with_keys(error_message([&] { batch_layout(job_of_batch(global, micro), ranks); }));
  };
  EXPECT_EQ(
      message(10, 4, 2),
      "train.global_batch = 10 is not a multiple of train.micro_batch = 4: train.global_batch = 8 or 12, "
      "or train.micro_batch = 1, 2 or 5 would do");
  EXPECT_EQ(message(16, 8, 3),
            "train.global_batch = 16 has 2 micro-batches of train.micro_batch = 8, fewer than the 3 data "
            "ranks: train.global_batch = 24, or train.micro_batch = 1, 2 or 4, or 2 data ranks would do");
  EXPECT_EQ(message(4, 4, 2),
            "train.global_batch = 4 has 1 micro-batch of train.micro_batch = 4, fewer than the 2 data ranks: "
            "train.global_batch = 8, or train.micro_batch = 1 or 2, or 1 data rank would do");
  EXPECT_EQ(
      message(5, 1, 6),
      "train.global_batch = 5 has 5 micro-batches of train.micro_batch = 1, fewer than the 6 data ranks: "
      "train.global_batch = 6, or 5 data ranks would do");
  EXPECT_THAT(message(480, 7, 1), HasSubstr("train.micro_batch = 4, 5, 6 or 8"));
  EXPECT_THAT(message(1 << 30, 1, 2),
              HasSubstr("train.global_batch = 1073741824 makes 1073741824 micro-batches"));
}

}  // namespace
}  // namespace trireme
