#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/config/config.h"
#include "launcher/keys/job_file.h"
#include "tests/launcher/config/error_matchers.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

JobConfig valid_job() {
  JobConfig config;
  config.model = {.layers = 2, .hidden = 64, .heads = 4, .vocab = 256, .seq_len = 32};
  config.data.train = "tokens";
  return config;
}

std::string check_error(void (*spoil)(JobConfig&)) {
  JobConfig config = valid_job();
  check_config(config);
  spoil(config);
  return error_message([&] { check_config(config); });
}

TEST(ConfigCheck, PartnerCopiesNeedCheckpointsAndAPlace) {
  EXPECT_THAT(check_error([](JobConfig& c) { c.checkpoint.partner = true; }),
              HasSubstr("checkpoint.partner = true copies checkpoints, and checkpoint.every = 0 saves none"));
  EXPECT_THAT(check_error([](JobConfig& c) {
                c.checkpoint = {.every = 5, .partner = true, .partner_folder = "memory"};
              }),
              HasSubstr("checkpoint.partner_folder = \"memory\" is not an absolute path"));
}

TEST(ConfigCheck, ModelNeedsAShape) {
  EXPECT_THAT(check_error([](JobConfig& c) { c.model.layers = 0; }), HasSubstr("give model.size, or all of"));
  EXPECT_THAT(check_error([](JobConfig& c) { c.model.heads = 5; }),
              HasSubstr("model.heads = 5 does not divide model.hidden = 64"));
  JobConfig sized = valid_job();
  sized.model = {.size = "124m"};
  EXPECT_NO_THROW(check_config(sized));
}

TEST(ConfigCheck, TensorChunksDivideTheModel) {
  const std::string not_a_power = "model.tensor_chunks = 3 is not a power of two";
  EXPECT_THAT(check_error([](JobConfig& c) { c.model.tensor_chunks = 3; }), HasSubstr(not_a_power));
  // Heads are divided among ranks, not among the groups of a sum.
  JobConfig sized = valid_job();
  sized.model = {.size = "124m", .tensor_chunks = 8};
  EXPECT_NO_THROW(check_config(sized));
  EXPECT_THAT(check_error([](JobConfig& c) {
                c.model.hidden = 60;
                c.model.tensor_chunks = 8;
              }),
              HasSubstr("model.tensor_chunks = 8 does not divide model.hidden = 60"));
  EXPECT_THAT(check_error([](JobConfig& c) {
                c.model = {.name = "gpt", .size = "1.5b"};
                c.model.tensor_chunks = 4;
              }),
              HasSubstr("model.heads = 25 is odd, so that no two tensor ranks could share them: use "
                        "model.tensor_chunks = 1, not 4"));
  EXPECT_THAT(check_error([](JobConfig& c) {
                c.model.name = "llama";
                c.model.kv_heads = 1;
                c.model.tensor_chunks = 4;
              }),
              HasSubstr("model.kv_heads = 1 is odd"));
  EXPECT_THAT(check_error([](JobConfig& c) {
                c.model.name = "llama";
                c.model.ffn = 100;
                c.model.tensor_chunks = 8;
              }),
              HasSubstr("model.tensor_chunks = 8 does not divide model.ffn = 100"));
}

TEST(ConfigCheck, MuonNeedsWholeMatrices) {
  EXPECT_THAT(
      check_error([](JobConfig& c) {
        c.optimizer.name = OptimizerConfig::Kind::kMuon;
        c.parallel.layout.zero = ZeroStage::kGradients;
      }),
      HasSubstr("optimizer.name = \"muon\" updates whole matrices, but a rank has only a piece of each "
                "with parallel.zero = 2: set parallel.zero = 0"));
  EXPECT_THAT(check_error([](JobConfig& c) {
                c.optimizer.name = OptimizerConfig::Kind::kMuon;
                c.model.tensor_chunks = 2;
              }),
              HasSubstr("but model.tensor_chunks = 2 splits them: set it to 1"));
  EXPECT_THAT(check_error([](JobConfig& c) {
                c.optimizer.name = OptimizerConfig::Kind::kMuon;
                c.optimizer.nesterov = true;
                c.optimizer.momentum = 0;
              }),
              HasSubstr("optimizer.nesterov needs a momentum"));
}

TEST(ConfigCheck, KeysThatNeedEachOther) {
  EXPECT_THAT(check_error([](JobConfig& c) { c.model = {.name = "resnet50"}; }),
              HasSubstr("data.kind = \"tokens\" is not what resnet50 is trained on"));
  EXPECT_THAT(check_error([](JobConfig& c) { c.data.train = ""; }), HasSubstr("data.train is missing"));
  EXPECT_THAT(check_error([](JobConfig& c) { c.optimizer.min_lr = 1; }),
              HasSubstr("optimizer.min_lr = 1 is above optimizer.lr = 0.0003"));
  EXPECT_THAT(check_error([](JobConfig& c) {
                c.optimizer.nesterov = true;
                c.optimizer.momentum = 0;
              }),
              HasSubstr("needs a momentum"));
  EXPECT_THAT(check_error([](JobConfig& c) {
                c.model.name = "llama";
                c.model.rope_theta = 1e-300;
              }),
              HasSubstr("model.rope_theta = 1e-300: the base"));
  EXPECT_THAT(check_error([](JobConfig& c) { c.model = {.name = "bert", .size = "tiny", .heads = 3}; }),
              HasSubstr("model.heads = 3 does not divide model.hidden = 128"));
  EXPECT_THAT(check_error([](JobConfig& c) {
                c.model = {.name = "bert", .size = "tiny"};
                c.data.kind = DataKind::kDocuments;
                c.parallel.cuda_graph = true;
              }),
              HasSubstr("with data.kind = \"documents\" the number of targets differs"));
  EXPECT_THAT(check_error([](JobConfig& c) { c.model = {.name = "vit", .size = "b", .heads = 5}; }),
              HasSubstr("model.heads = 5 does not divide model.hidden = 768"));
  EXPECT_THAT(check_error([](JobConfig& c) { c.model = {.name = "cct", .layers = 2, .hidden = 64}; }),
              HasSubstr("all of model.layers = 2, model.hidden = 64 and model.heads = 0"));
  EXPECT_THAT(check_error([](JobConfig& c) { c.model = {.name = "vit", .size = "tiny"}; }),
              HasSubstr("vit: there is no size 'tiny'; use ti, s, b, l, h"));
  EXPECT_THAT(check_error([](JobConfig& c) { c.model = {.name = "bert", .size = "124m"}; }),
              HasSubstr("bert: there is no size '124m'; use tiny, base, large"));
  EXPECT_THAT(check_error([](JobConfig& c) {
                c.model = {.name = "bert", .size = "tiny"};
                c.model.task = ModelTask::kClassify;
              }),
              HasSubstr("model.task = \"classify\" learns from data.kind = \"documents\""));
  EXPECT_THAT(check_error([](JobConfig& c) {
                c.model = {.name = "bert", .size = "tiny"};
                c.data.pack = true;
              }),
              HasSubstr("data.pack = true packs documents"));
  EXPECT_THAT(check_error([](JobConfig& c) { c.data.kind = DataKind::kDocuments; }),
              HasSubstr("data.kind = \"documents\" is not what gpt is trained on"));
  EXPECT_THAT(
      check_error([](JobConfig& c) { c.log.trace_step.first = c.log.trace_step.last = c.train.steps + 1; }),
      HasSubstr("is beyond the last step, train.steps"));
  EXPECT_THAT(check_error([](JobConfig& c) { c.checkpoint.resume = from_word<Resume>(""); }),
              HasSubstr("checkpoint.resume"));
  JobConfig synthetic = valid_job();
  synthetic.data = {.kind = DataKind::kSynthetic};
  EXPECT_NO_THROW(check_config(synthetic));
}

// The default has no warm-up, and a one-step run is allowed.
TEST(ConfigCheck, WarmUpLeavesStepsToTheSchedule) {
  JobConfig config = valid_job();
  config.train.steps = 10;
  for (const char* schedule : {"linear", "cosine", "one_cycle", "wsd"}) {
    config.optimizer.schedule = from_word<LrSchedule::Kind>(schedule);
    for (const std::int64_t warmup : {10, 11, 1000}) {
      config.optimizer.warmup_steps = warmup;
      EXPECT_THAT(error_message([&] { check_schedule(config); }),
                  HasSubstr(fmt::format("optimizer.warmup_steps = {} leaves none of train.steps = 10 to "
                                        "optimizer.schedule = \"{}\"",
                                        warmup, schedule)));
    }
    for (const std::int64_t warmup : {0, 9}) {
      config.optimizer.warmup_steps = warmup;
      EXPECT_EQ(check_schedule(config), "");
    }
  }
  config.optimizer.schedule = LrSchedule::Kind::kWsd;
  config.optimizer.warmup_steps = 4;
  config.optimizer.decay_steps = 6;
  EXPECT_EQ(check_schedule(config), "");
  config.optimizer.decay_steps = 7;
  EXPECT_THAT(
      error_message([&] { check_schedule(config); }),
      HasSubstr("optimizer.warmup_steps = 4 and optimizer.decay_steps = 7 are more than train.steps = 10"));
  config.optimizer.warmup_steps = 9;
  config.optimizer.schedule = LrSchedule::Kind::kConstant;
  EXPECT_EQ(check_schedule(config), "");
  config.optimizer.warmup_steps = 10;
  EXPECT_THAT(check_schedule(config), HasSubstr("all of train.steps = 10 are warm-up"));
  EXPECT_NO_THROW(parse_config(to_toml(config), "a checkpoint's"));  // eval and sample read such a checkpoint
}

TEST(ConfigCheck, RecordedPipelinesAreDoubted) {
  JobConfig config = valid_job();
  config.parallel.cuda_graph = true;
  EXPECT_EQ(doubt_about_recorded_steps(config, DeviceType::kCuda), "");
  config.parallel.layout.pipeline = 2;
  EXPECT_THAT(doubt_about_recorded_steps(config, DeviceType::kCuda),
              HasSubstr("parallel.cuda_graph = true with parallel.pipeline = 2 has not run on a GPU yet"));
  EXPECT_EQ(doubt_about_recorded_steps(config, DeviceType::kCpu), "");
  config.parallel.cuda_graph = false;
  EXPECT_EQ(doubt_about_recorded_steps(config, DeviceType::kCuda), "");
}

TEST(ConfigCheck, SequencesAreSharedEqually) {
  EXPECT_THAT(check_error([](JobConfig& c) { c.parallel.layout.sequence = true; }),
              HasSubstr("parallel.sequence = true needs parallel.tensor = 2 or more"));
  const std::string odd = "parallel.tensor = 4 ranks cannot share model.seq_len = 30 tokens equally";
  EXPECT_THAT(check_error([](JobConfig& c) {
                c.model.seq_len = 30;
                c.parallel.layout.tensor = 4;
                c.parallel.layout.sequence = true;
              }),
              HasSubstr(odd));
  JobConfig shared = valid_job();
  shared.parallel.layout.tensor = 4;
  shared.parallel.layout.sequence = true;
  EXPECT_NO_THROW(check_config(shared));
}

TEST(ConfigCheck, StagesChunksAndCut) {
  EXPECT_THAT(check_error([](JobConfig& c) {
                c.parallel.layout.pipeline = 2;
                c.parallel.layout.chunks = 2;
              }),
              HasSubstr("parallel.chunks = 2 needs parallel.schedule = \"interleaved\""));
  EXPECT_THAT(check_error([](JobConfig& c) {
                c.parallel.layout.pipeline = 2;
                c.parallel.layout.schedule = PipelineSchedule::kInterleaved;
              }),
              HasSubstr("needs parallel.chunks = 2 or more"));
  EXPECT_THAT(check_error([](JobConfig& c) {
                c.parallel.layout.schedule = PipelineSchedule::kInterleaved;
                c.parallel.layout.chunks = 2;
              }),
              HasSubstr("needs parallel.pipeline = 2 or more"));
  EXPECT_THAT(check_error([](JobConfig& c) {
                c.parallel.pipeline_cut = {.kind = PipelineCut::Kind::kListed, .firsts = {2}};
              }),
              HasSubstr("parallel.pipeline_cut = \"2\" cuts a model that"));
}

}  // namespace
}  // namespace trireme
