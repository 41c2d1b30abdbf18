// Adapters of linear layers: their keys, the adapted model and its cost, and equal training results on every
// layout.
#include "launcher/job/lora.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "launcher/job/build.h"
#include "launcher/job/parameter_patterns.h"
#include "launcher/keys/job_file.h"
#include "parallel/comm/local.h"
#include "parallel/foresee/predict.h"
#include "runtime/base/nf4.h"
#include "tests/launcher/config/error_matchers.h"
#include "tests/support/pipeline_layout.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::PipelineLayout;

constexpr const char* kModel =
    "[model]\nlayers = 2\nhidden = 16\nheads = 2\nvocab = 64\nseq_len = 8\n"
    "[data]\nkind = \"synthetic\"\n";

JobConfig job(const std::string& more, const std::vector<std::string>& overrides = {}) {
  return resolve(parse_config(kModel + more, "job.toml", overrides));
}

std::string refused(const std::string& more, const std::vector<std::string>& overrides = {}) {
  return error_message([&] { job(more, overrides); });
}

TEST(LoraKeys, AreReadFromEachForm) {
  const std::string wanted =
      "[train.lora]\ntargets = [\"attention.qkv\", \"mlp.*\"]\nrank = 4\nalpha = 6.0\n";
  for (const std::string& form :
       {wanted,
        std::string("[train]\nlora = { rank = 4, alpha = 6, targets = [\"attention.qkv\", \"mlp.*\"] }\n")}) {
    const JobConfig config = job(form);
    EXPECT_THAT(config.model.lora_targets, ElementsAre("attention.qkv", "mlp.*"));
    EXPECT_EQ(config.model.lora_rank, 4);
    EXPECT_EQ(config.model.lora_alpha, 6.0);
    const std::string text = to_toml(config);
    EXPECT_THAT(text, HasSubstr(wanted));
    EXPECT_EQ(to_toml(parse_written_config(text, "config.toml")), text);
  }
  const JobConfig set =
      job("", {"train.lora={rank = 4, targets = [\"*\"]}", "train.lora.alpha=6", "train.seed=3"});
  EXPECT_EQ(set.model.lora_rank, 4);
  EXPECT_EQ(set.model.lora_alpha, 6.0);
  EXPECT_EQ(set.train.seed, 3);
  EXPECT_THAT(to_toml(job("")), AllOf(HasSubstr("[train.lora]\ntargets = []\n"), Not(HasSubstr("alpha"))));
}

TEST(LoraKeys, WhatCannotBeIsRefused) {
  const std::string all = "[train.lora]\ntargets = [\"*\"]\n";
  EXPECT_THAT(refused(all + "rank = 0\n"),
              HasSubstr("train.lora.rank = 0 is out of range; allowed: 1 or more"));
  EXPECT_THAT(refused(all + "rank = 17\n"),
              HasSubstr("train.lora.rank = 17 is larger than the smaller dim of 'blocks.0.attention.qkv'"));
  EXPECT_EQ(job(all + "rank = 16\n").model.lora_rank, 16);
  for (const char* alpha : {"-1.0", "0.0"}) {
    EXPECT_THAT(refused(all + "alpha = " + alpha + "\n"),
                HasSubstr(fmt::format("train.lora.alpha = {} is out of range; allowed: above 0", alpha)));
  }
  EXPECT_THAT(
      refused("[train.lora]\ntargets = [\"attention.qvk\"]\n"),
      AllOf(HasSubstr("train.lora.targets: \"attention.qvk\" names none of the model's 8 inner linear"),
            HasSubstr("the nearest is 'blocks.0.attention.qkv'")));
  EXPECT_THAT(refused("[train.lora]\ntargets = [\"attention.qkv\", \"head\"]\n"),
              HasSubstr("\"head\" names none"));
  // Without targets the other keys have no effect, not even with their defaults.
  EXPECT_THAT(refused("[train.lora]\nrank = 8\n"),
              HasSubstr("train.lora.rank is for jobs with train.lora.targets and has no effect"));
  EXPECT_THAT(refused("[train]\nlora = 8\n"), HasSubstr("train.lora is a section"));
  EXPECT_THAT(refused("[train.lora]\nranks = 8\n"), HasSubstr("unknown key train.lora.ranks; did you mean"));
  const auto resnet = [] {
    resolve(parse_config(
        "[model]\nname = \"resnet20\"\n[data]\nkind = \"synthetic\"\n[train.lora]\ntargets = [\"*\"]\n",
        "job.toml"));
  };
  EXPECT_THAT(error_message(resnet), HasSubstr("a resnet20 has no inner linear layers to adapt"));
}

TEST(LoraKeys, RankStabilizedScaleIsAlphaBySqrtOfRank) {
  const std::string lora = "[train.lora]\ntargets = [\"all-linear\"]\nrank = 4\nalpha = 6.0\n";
  EXPECT_EQ(adapter_scale(job(lora).model), 1.5);
  const JobConfig stabilized = job(lora + "rank_stabilized = true\n");
  EXPECT_EQ(adapter_scale(stabilized.model), 3.0);
  EXPECT_THAT(to_toml(stabilized), HasSubstr("rank_stabilized = true\n"));
  const auto blocks = build_blocks(stabilized.model);
  const SavedAdapters saved = saved_adapters(stabilized.model, *blocks);
  EXPECT_TRUE(saved.rank_stabilized);
  EXPECT_EQ(saved.scale, 3.0);
  EXPECT_EQ(saved.layers.size(), 8u);  // all-linear: qkv, out, up and down of two blocks, without the head
  EXPECT_THAT(refused("[train.lora]\nrank_stabilized = true\n"),
              HasSubstr("train.lora.rank_stabilized is for jobs with train.lora.targets"));
}

TEST(LoraKeys, QuantizeIsAWord) {
  const std::string lora = "[train.lora]\ntargets = [\"all-linear\"]\n";
  EXPECT_EQ(job(lora).model.lora_quantize, FrozenWeights::kNumbers);
  const JobConfig config = job(lora + "quantize = \"nf4\"\n");
  EXPECT_TRUE(parameter_rules(config).quantizes);
  EXPECT_THAT(to_toml(config), HasSubstr("quantize = \"nf4\"\n"));
  EXPECT_THAT(refused(lora + "quantize = \"int4\"\n"), HasSubstr("train.lora.quantize = \"int4\""));
  EXPECT_THAT(refused("[train.lora]\nquantize = \"nf4\"\n"),
              HasSubstr("train.lora.quantize is for jobs with train.lora.targets"));
}

TEST(LoraKeys, RandomWeightsAreWarnedOf) {
  const std::string lora = "[train.lora]\ntargets = [\"*\"]\n";
  EXPECT_THAT(doubt_about_adapters(job(lora)), HasSubstr("train.lora without model.init_from"));
  EXPECT_EQ(doubt_about_adapters(job("")), "");
  EXPECT_EQ(doubt_about_adapters(job(lora, {"model.init_from=run"})), "");
  EXPECT_EQ(doubt_about_adapters(job(lora, {"checkpoint.resume=run/checkpoints/step-000001"})), "");
}

std::vector<std::string> shapes_of_adapters(const BlockList& blocks) {
  std::vector<std::string> shapes;
  for (const auto& block : blocks) {
    for (const ParameterSpec& spec : block->parameters()) {
      if (is_adapter_name(spec.name)) shapes.push_back(block->full_name(spec) + " " + spec.shape.to_string());
    }
  }
  return shapes;
}

TEST(LoraModel, NamesAndShapesArePefts) {
  const std::string lora = "[train.lora]\nrank = 3\ntargets = ";
  EXPECT_THAT(shapes_of_adapters(*build_blocks(job(lora + "[\"blocks.1.attention.*\"]\n").model)),
              ElementsAre("blocks.1.attention.qkv.lora_A.weight [3, 16]",
                          "blocks.1.attention.qkv.lora_B.weight [48, 3]",
                          "blocks.1.attention.out.lora_A.weight [3, 16]",
                          "blocks.1.attention.out.lora_B.weight [16, 3]"));
  EXPECT_EQ(shapes_of_adapters(*build_blocks(job(lora + "[\"*\"]\n").model)).size(), 16u);
  const JobConfig vit = resolve(
      parse_config("[model]\nname = \"vit\"\nlayers = 1\nhidden = 24\nheads = 3\npatch = 4\nimage_size = 8\n"
                   "classes = 3\n[data]\nkind = \"synthetic\"\n[train.lora]\nrank = 2\ntargets = "
                   "[\"in_proj\", \"mlp.3\"]\n",
                   "job.toml"));
  EXPECT_THAT(shapes_of_adapters(*build_blocks(vit.model)),
              ElementsAre("encoder.layers.encoder_layer_0.self_attention.in_proj.lora_A.weight [2, 24]",
                          "encoder.layers.encoder_layer_0.self_attention.in_proj.lora_B.weight [72, 2]",
                          "encoder.layers.encoder_layer_0.mlp.3.lora_A.weight [2, 96]",
                          "encoder.layers.encoder_layer_0.mlp.3.lora_B.weight [24, 2]"));
}

ModelSection with_lora(ModelSection model, std::vector<std::string> targets = {"*"}) {
  model.lora_targets = std::move(targets);
  model.lora_rank = 3;
  model.lora_alpha = 7.0;
  return model;
}

ModelSection gpt(bool tied) {
  const GptConfig config = testing::pipeline_gpt_config();
  ModelSection model;
  model.layers = config.layers;
  model.hidden = config.hidden;
  model.heads = config.heads;
  model.vocab = config.vocab;
  model.seq_len = config.seq_len;
  model.dropout = static_cast<double>(config.dropout);
  model.tied = tied;
  return model;
}

ModelSection quantized(ModelSection model) {
  model.lora_quantize = FrozenWeights::kNf4;
  return model;
}

ModelSection llama() {
  ModelSection model = gpt(false);
  model.name = "llama";
  model.kv_heads = 1;
  model.ffn = 40;
  model.rope_theta = 100.0;
  model.rope_factor = 1.0;
  model.dropout = 0.0;
  return model;
}

HostBatch tokens() {
  return testing::token_source(61, 16, 5)(0, 3);
}

// B is zero, so the adapter adds zero.
TEST(LoraModel, BeginsAsTheModel) {
  const ModelSection plain = gpt(true);
  const EngineOptions options = PipelineLayout{}.options();
  Engine base(build_blocks(plain), LocalWorld(1).communicator(0), options);
  Engine adapted(build_blocks(with_lora(plain)), LocalWorld(1).communicator(0), options);
  const std::vector<float> expected = base.context().to_host(base.infer(tokens())),
                           logits = adapted.context().to_host(adapted.infer(tokens()));
  ASSERT_EQ(logits.size(), expected.size());
  for (std::size_t i = 0; i < logits.size(); ++i) ASSERT_NEAR(logits[i], expected[i], 1e-6) << i;
}

EngineOptions options_of(const PipelineLayout& layout, const ModelSection& model) {
  EngineOptions options = layout.options();
  options.rules.trained = trained_with_adapters(model);
  options.rules.quantizes = model.lora_quantize == FrozenWeights::kNf4;
  if (layout.precision.mode() == PrecisionMode::kFp16)
    options.loss_scale = {.kind = LossScaleConfig::Kind::kDynamic};
  return options;
}

struct Trained {
  testing::PipelineOutcome outcome;
  MemoryStats memory;                                // of rank 0
  std::int64_t trained_elems = 0, frozen_elems = 0;  // padded
};

Trained train_adapters(const PipelineLayout& layout, const ModelSection& model) {
  const auto blocks = build_blocks(model);
  const EngineOptions options = options_of(layout, model);
  Trained trained;
  std::mutex mutex;
  run_local_ranks(layout.ranks(), [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(blocks, comm, options);
    const StepPrediction predicted =
        predict_step(blocks, options, *options.sample, layout.ranks(), comm->rank());
    StepResult result = testing::train(engine, layout, 3);
    const MemoryStats memory = result.memory;
    result.memory.peak[MemoryCategory::kWorkspace] = 0;
    const testing::PipelineOutcome mine = outcome_of(engine, layout, result);
    const std::lock_guard lock(mutex);
    EXPECT_EQ(result.memory.peak.bytes, predicted.memory.peak.bytes) << layout.to_string();
    EXPECT_EQ(result.memory.peak_total, predicted.memory.peak_total) << layout.to_string();
    EXPECT_EQ(result.sent_bytes, predicted.sent_bytes) << layout.to_string();
    if (comm->rank() != 0) return;
    trained.outcome = mine;
    trained.memory = memory;
    for (const ParamGroup& group : engine.layout().groups)
      (group.frozen ? trained.frozen_elems : trained.trained_elems) += group.num_elems;
  });
  return trained;
}

// Each matrix is padded to norm blocks of 1024 elements; this model is wide enough to make that small.
TEST(LoraModel, OptimizerStateAndGradientsAreThoseOfTheAdapters) {
  const PipelineLayout layout{.global_batch = 8};
  ModelSection model = gpt(true);
  model.hidden = 128;
  model.layers = 2;
  const Trained whole = train_adapters(layout, model);
  ModelSection lora = with_lora(model);
  lora.lora_rank = 8;
  const Trained adapters = train_adapters(layout, lora);
  lora.lora_rank = 16;
  const Trained wider = train_adapters(layout, lora);
  EXPECT_EQ(whole.frozen_elems, 0);
  EXPECT_EQ(adapters.frozen_elems, whole.trained_elems);
  // Per layer, 16 C for each row of A and column of B: 4, 2, 5 and 5 for qkv, out, up and down.
  EXPECT_EQ(adapters.trained_elems, 2 * 16 * 128 * 8);
  EXPECT_EQ(wider.trained_elems, 2 * adapters.trained_elems);
  EXPECT_LT(10 * adapters.trained_elems, whole.trained_elems);
  for (const Trained* run : {&adapters, &wider}) {
    const std::int64_t saved_elems = whole.trained_elems - run->trained_elems;
    EXPECT_EQ(whole.memory.peak[MemoryCategory::kOptimizer] - run->memory.peak[MemoryCategory::kOptimizer],
              2 * 4 * saved_elems);  // two moments in fp32
    // With 4 micro-batches: at most three sums of a binary counter, and a few numbers.
    EXPECT_LE(run->memory.peak[MemoryCategory::kGradients], 3 * 4 * run->trained_elems + 8192);
  }
}

// Codes of half a byte, a byte of scale for 64 of them, and no masters.
TEST(LoraModel, QuantizedWeightsTakeFourBits) {
  const PipelineLayout layout{.precision = Precision(PrecisionMode::kBf16), .global_batch = 8};
  ModelSection model = gpt(true);
  model.hidden = 128;
  model.layers = 2;
  const Trained plain = train_adapters(layout, with_lora(model));
  const Trained codes = train_adapters(layout, quantized(with_lora(model)));
  EXPECT_EQ(codes.frozen_elems, plain.frozen_elems);
  EXPECT_EQ(codes.trained_elems, plain.trained_elems);
  const std::int64_t layer_elems = 12 * 128 * 128;
  const std::int64_t scales = 4 + 2 + 5 + 5;  // of qkv, out, up and down: a mean, and one per 256 blocks
  const std::int64_t stored = layer_elems / 2 + layer_elems / kNf4Block + 4 * scales;
  // Instead of 2 bytes of a working copy and 4 of a master.
  EXPECT_EQ(plain.memory.peak[MemoryCategory::kParameters] - codes.memory.peak[MemoryCategory::kParameters],
            2 * (6 * layer_elems - stored));
}

// The shape of Llama 2 7B with adapters of all inner layers, and a row of 1024 tokens at a time.
TEST(LoraModel, SevenBillionParametersFitInEightGigabytes) {
  for (const char* mode : {"bf16", "fp8"}) {
    SCOPED_TRACE(mode);
    const JobConfig config = resolve(parse_config(
        std::string("[model]\nname = \"llama\"\nlayers = 32\nhidden = 4096\nheads = 32\nffn = 11008\n"
                    "vocab = 32000\nseq_len = 1024\n[data]\nkind = \"synthetic\"\n[train]\nglobal_batch = 4\n"
                    "micro_batch = 1\nlora = { rank = 16, targets = [\"all-linear\"], quantize = \"nf4\" }\n"
                    "[parallel]\nrecompute_every = 1\n[precision]\nmode = \"") +
            mode + "\"\n",
        "job.toml"));
    const PlannedJob job = planned_job(config, build_blocks(config.model), 1);
    const StepPrediction predicted = predict_step(job.blocks, job.options, job.sample, 1, 0);
    EXPECT_LT(predicted.memory.peak_total, 8'000'000'000);
    const ModelLayout model = make_layout(*job.blocks, 0, {}, job.options.rules);
    EXPECT_EQ(model.num_frozen, 6'738'415'616);  // as published
    EXPECT_EQ(model.num_parameters - model.num_frozen, 16 * 32 * (8 * 4096 + 22016 + 11008));
  }
}

struct LayoutCase {
  const char* model;
  PrecisionMode mode;
};

class LoraLayouts : public ::testing::TestWithParam<LayoutCase> {};

TEST_P(LoraLayouts, EveryLayoutGivesTheSameState) {
  using enum PipelineSchedule;
  const std::string name = GetParam().model;
  const ModelSection model =
      name == "llama"  ? with_lora(llama())
      : name == "tied" ? with_lora(gpt(true))
      : name == "nf4"  ? quantized(with_lora(gpt(true)))
      : name == "nf4_llama"
          ? quantized(with_lora(llama(), {"attention.qkv"}))
          : with_lora(gpt(false), {"attention.qkv", "blocks.?.mlp.up", "blocks.5.mlp.down"});
  const PipelineLayout layouts[] = {{.data = 2},
                                    {.data = 4, .zero = 1, .recompute = 1},
                                    {.data = 2, .zero = 2, .group_min_bytes = 1 << 14},
                                    {.data = 4, .zero = 3, .recompute = 2},
                                    {.data = 2, .zero = 3, .keep_gathered = true},
                                    {.stages = 2, .schedule = kGpipe},
                                    {.stages = 2, .data = 2, .zero = 3},
                                    {.stages = 4, .zero = 0, .recompute = 1},
                                    {.stages = 2, .data = 2, .schedule = kZeroBubbleH1, .zero = 2}};
  const Precision precision(GetParam().mode);
  const Trained alone = train_adapters({.precision = precision}, model);
  EXPECT_TRUE(std::isfinite(alone.outcome.loss));
  for (PipelineLayout layout : layouts) {
    layout.precision = precision;
    EXPECT_TRUE(train_adapters(layout, model).outcome == alone.outcome) << layout.to_string();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, LoraLayouts,
    ::testing::Values(LayoutCase{"tied", PrecisionMode::kFp32}, LayoutCase{"tied", PrecisionMode::kTf32},
                      LayoutCase{"tied", PrecisionMode::kFp16}, LayoutCase{"tied", PrecisionMode::kBf16},
                      LayoutCase{"tied", PrecisionMode::kFp8}, LayoutCase{"untied", PrecisionMode::kFp32},
                      LayoutCase{"untied", PrecisionMode::kBf16}, LayoutCase{"llama", PrecisionMode::kFp32},
                      LayoutCase{"llama", PrecisionMode::kBf16}, LayoutCase{"nf4", PrecisionMode::kFp32},
                      LayoutCase{"nf4", PrecisionMode::kTf32}, LayoutCase{"nf4", PrecisionMode::kFp16},
                      LayoutCase{"nf4", PrecisionMode::kFp8}, LayoutCase{"nf4_llama", PrecisionMode::kFp32},
                      LayoutCase{"nf4_llama", PrecisionMode::kBf16}),
    [](const auto& info) { return fmt::format("{}_{}", info.param.model, name(info.param.mode)); });

}  // namespace
}  // namespace trireme
