#include "launcher/job/build.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/config/field_keys.h"
#include "launcher/keys/job_file.h"
#include "runtime/data/prepare_text.h"
#include "runtime/data/token_file.h"
#include "tests/launcher/config/error_matchers.h"
#include "tests/launcher/job/cut_engine_options.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

// A job on 2000 prepared bytes in `folder`/tokens: 1800 for training, 200 for evaluation.
JobConfig job_with_data(const testing::TemporaryFolder& folder) {
  testing::write_file(folder / "text.txt", std::string(2000, 'a'));
  prepare_text({.inputs = {folder / "text.txt"}, .output = folder / "tokens"});
  JobConfig config;
  config.model = {.layers = 1, .hidden = 16, .heads = 2, .seq_len = 8};
  config.data.train = config.data.eval = (folder / "tokens").string();
  return config;
}

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

TEST(Build, VocabularyComesFromPreparedData) {
  const testing::TemporaryFolder folder;
  JobConfig config = job_with_data(folder);
  EXPECT_EQ(resolve(config).model.vocab, 256);
  config.data.train = (folder / "tokens/train.bin").string();
  EXPECT_EQ(resolve(config).model.vocab, 256);
  config.data.train = (folder / "absent").string();
  config.model.vocab = 300;
  EXPECT_EQ(resolve(config).model.vocab, 300);
}

TEST(Build, AVocabularyThatIsNotKnownHasAReasonOfItsOwn) {
  const testing::TemporaryFolder folder;
  JobConfig config = job_with_data(folder);
  const auto refusal = [&](const std::string& train) {
    config.data.train = train;
    return error_message([&] { resolve(config); });
  };
  EXPECT_THAT(refusal((folder / "absent").string()), HasSubstr("data.train: token data"));
  EXPECT_THAT(refusal("absent/here"), HasSubstr("absent/here does not exist (working directory: "));
  EXPECT_THAT(refusal(""), HasSubstr("data.train is missing"));
  testing::write_file(folder / "raw/text.txt", "text");
  EXPECT_THAT(refusal((folder / "raw").string()), HasSubstr("trireme data text"));
  EXPECT_THAT(refusal((folder / "raw/text.txt").string()), HasSubstr("trireme data text"));
  testing::write_file(folder / "plain.bin", testing::read_file(folder / "tokens/train.bin"));
  EXPECT_THAT(refusal((folder / "plain.bin").string()), HasSubstr("model.vocab is not known"));
  std::filesystem::resize_file(folder / "plain.bin", 1100);
  EXPECT_THAT(refusal((folder / "plain.bin").string()), HasSubstr("plain.bin is truncated"));
  EXPECT_THAT(refusal((folder / "*.none").string()), HasSubstr("no file matches the pattern"));
}

TEST(Build, EvaluationDataInTheTrainingDataIsRefused) {
  const testing::TemporaryFolder folder;
  JobConfig config = resolve(job_with_data(folder));
  const std::string train = testing::read_file(folder / "tokens/train.bin"),
                    eval = testing::read_file(folder / "tokens/eval.bin");
  testing::write_file(folder / "shards/web_0.bin", train);
  testing::write_file(folder / "shards/web_1.bin", eval);
  std::filesystem::create_symlink(folder / "shards/web_1.bin", folder / "link.bin");
  const auto open = [&](const char* of_train, const char* of_eval) {
    config.data.train = (folder / of_train).string();
    config.data.eval = (folder / of_eval).string();
    return error_message([&] { open_data(config, true); });
  };
  for (const auto& [of_train, of_eval] : {std::pair{"shards", "shards/web_1.bin"},
                                          {"shards", "link.bin"},
                                          {"shards/web_*.bin", "link.bin"},
                                          {"shards/web_0.bin", "shards/*.bin"},
                                          {"tokens/train.bin", "tokens/train.bin"},
                                          {"shards", "tokens/eval.bin"}}) {
    EXPECT_THAT(open(of_train, of_eval), HasSubstr("set data.allow_eval_in_train = true")) << of_train;
  }
  config.data.allow_eval_in_train = true;
  EXPECT_NO_THROW(open_data(config, true));
  config.data.allow_eval_in_train = false;
  config.data.train = (folder / "shards/web_0.bin").string();
  EXPECT_NO_THROW(open_data(config, true));
}

TEST(Build, PreparedFoldersGiveEachKeyItsPart) {
  const testing::TemporaryFolder folder;
  const JobConfig config = resolve(job_with_data(folder));
  const JobData data = open_data(config, /*check_tokens=*/true);
  EXPECT_EQ(data.train->num_samples(), 1799 / 8);
  EXPECT_EQ(data.eval->num_samples(), 199 / 8);
}

TEST(Build, DataErrorsNameTheKey) {
  const testing::TemporaryFolder folder;
  JobConfig config = resolve(job_with_data(folder));
  config.data.eval = (folder / "absent").string();
  EXPECT_THAT(error_message([&] { open_data(config, true); }), ::testing::StartsWith("data.eval: "));
  config.data.eval = "";
  config.model.vocab = 'a';  // the tokens are 'a', one beyond this vocabulary
  EXPECT_THAT(error_message([&] { open_data(config, true); }), ::testing::StartsWith("data.train: "));
  EXPECT_NO_THROW(open_data(config, false));
  EXPECT_EQ(open_data(config, false).eval, nullptr);
}

TEST(Build, FingerprintsTellDataApart) {
  const testing::TemporaryFolder folder, other;
  const JobConfig config = resolve(job_with_data(folder)), same = resolve(job_with_data(other));
  const std::string fingerprint = open_data(config, true).fingerprint_text();
  EXPECT_THAT(fingerprint, HasSubstr("data.train: 1800 tokens"));
  EXPECT_EQ(fingerprint, open_data(same, true).fingerprint_text());
  EXPECT_EQ(open_data(config, false).fingerprint_text(), "");
  testing::write_file(other / "text.txt", std::string(1000, 'a') + "b" + std::string(999, 'a'));
  prepare_text({.inputs = {other / "text.txt"}, .output = other / "tokens"});
  EXPECT_NE(fingerprint, open_data(same, true).fingerprint_text());
}

// Equal samples have equal fingerprints, whatever the file names and token width. Shard ends cut samples.
TEST(Build, FingerprintsFollowTheSamples) {
  const testing::TemporaryFolder folder;
  const auto write = [&](const std::string& name, const TokenLayout& layout, std::int32_t first, int count) {
    std::filesystem::create_directories((folder / name).parent_path());
    TokenFileWriter writer(folder / name, layout);
    for (std::int32_t id = first; id < first + count; ++id) writer.append(std::span(&id, 1));
    writer.commit();
  };
  write("one.bin", kTokens16, 0, 60);
  write("other.bin", kTokens32, 0, 60);
  write("parts/a.bin", kTokens16, 0, 40);
  write("parts/b.bin", kTokens16, 40, 20);
  write("renamed/1.bin", kTokens16, 0, 40);
  write("renamed/2.bin", kTokens16, 40, 20);
  write("swapped/1.bin", kTokens16, 40, 20);
  write("swapped/2.bin", kTokens16, 0, 40);
  const auto fingerprint = [&](const char* name) {
    JobConfig config;
    config.model = {.layers = 1, .hidden = 16, .heads = 2, .vocab = 61, .seq_len = 8};
    config.data.train = (folder / name).string();
    return *open_data(resolve(config), true).train_fingerprint;
  };
  EXPECT_EQ(fingerprint("one.bin"), fingerprint("other.bin"));
  EXPECT_EQ(fingerprint("parts"), fingerprint("renamed"));
  EXPECT_FALSE(fingerprint("parts") == fingerprint("one.bin"));
  EXPECT_FALSE(fingerprint("parts") == fingerprint("swapped"));
}

// Two tokenizers of one kind and size, trained on different text.
TEST(Build, TokenizersAreComparedByTheContentOfTheirFile) {
  const testing::TemporaryFolder folder;
  JobConfig config = resolve(job_with_data(folder));
  DatasetInfo info = read_dataset_info(folder / "tokens");
  info.tokenizer = "bpe";
  info.tokenizer_model = "tokenizer.json";
  write_dataset_info(info, folder / "tokens");
  testing::write_file(folder / "tokens/tokenizer.json", "{\"a\": 1}");
  std::filesystem::copy(folder / "tokens", folder / "others");
  config.data.eval = (folder / "others").string();
  EXPECT_NO_THROW(open_data(config, true));
  testing::write_file(folder / "others/tokenizer.json", "{\"a\": 2}");
  EXPECT_THAT(error_message([&] { open_data(config, true); }),
              ::testing::AllOf(HasSubstr("tokenizer bpe of 256 tokens, hash "),
                               HasSubstr("prepare both with the same --tokenizer")));
}

// A data set from a stranger must not copy a file of the user into a checkpoint.
TEST(Build, ATokenizerOutsideOfTheDataFolderIsRefused) {
  const testing::TemporaryFolder folder;
  const JobConfig config = resolve(job_with_data(folder));
  testing::write_file(folder / "secret", "a key");
  DatasetInfo info = read_dataset_info(folder / "tokens");
  info.tokenizer = "bpe";
  const auto refusal = [&](const std::string& name) {
    info.tokenizer_model = name;
    write_dataset_info(info, folder / "tokens");
    return error_message([&] { open_data(config, true); });
  };
  for (const std::string& name : {(folder / "secret").string(), std::string("../secret")}) {
    EXPECT_THAT(refusal(name), ::testing::AllOf(HasSubstr("\"tokenizer_model\" of dataset.json"),
                                                HasSubstr(name), HasSubstr("copy the file into the folder")));
  }
  std::filesystem::create_symlink("../secret", folder / "tokens/link");
  EXPECT_THAT(refusal("link"), HasSubstr("outside of its folder"));
}

TEST(Build, TokensOfAnotherTokenizerAreRefused) {
  const testing::TemporaryFolder folder;
  JobConfig config = resolve(job_with_data(folder));
  std::filesystem::copy(folder / "tokens", folder / "others");
  DatasetInfo info = read_dataset_info(folder / "others");
  info.vocab_size = 100;
  write_dataset_info(info, folder / "others");
  config.data.eval = (folder / "others").string();
  EXPECT_THAT(error_message([&] { open_data(config, true); }),
              HasSubstr("prepare both with the same --tokenizer"));
}

TEST(Build, SyntheticDataNeedsNoFiles) {
  JobConfig config;
  config.data.kind = DataKind::kSynthetic;
  config.model = {.layers = 1, .hidden = 16, .heads = 2, .vocab = 17, .seq_len = 8};
  const JobData data = open_data(resolve(config), true);
  EXPECT_EQ(data.train->targets_per_sample(), 8);
  EXPECT_EQ(data.eval, nullptr);
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
