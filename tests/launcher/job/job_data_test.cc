// The data that a job names: its vocabulary, its fingerprint, and evaluation beside training.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/job/build.h"
#include "launcher/keys/job_file.h"
#include "runtime/data/prepare_text.h"
#include "runtime/data/token_file.h"
#include "tests/launcher/config/error_matchers.h"
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

TEST(JobData, VocabularyComesFromPreparedData) {
  const testing::TemporaryFolder folder;
  JobConfig config = job_with_data(folder);
  EXPECT_EQ(resolve(config).model.vocab, 256);
  config.data.train = (folder / "tokens/train.bin").string();
  EXPECT_EQ(resolve(config).model.vocab, 256);
  config.data.train = (folder / "absent").string();
  config.model.vocab = 300;
  EXPECT_EQ(resolve(config).model.vocab, 300);
}

TEST(JobData, AVocabularyThatIsNotKnownHasAReasonOfItsOwn) {
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

TEST(JobData, EvaluationDataInTheTrainingDataIsRefused) {
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

TEST(JobData, PreparedFoldersGiveEachKeyItsPart) {
  const testing::TemporaryFolder folder;
  const JobConfig config = resolve(job_with_data(folder));
  const JobData data = open_data(config, /*check_tokens=*/true);
  EXPECT_EQ(data.train->num_samples(), 1799 / 8);
  EXPECT_EQ(data.eval->num_samples(), 199 / 8);
}

TEST(JobData, DataErrorsNameTheKey) {
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

TEST(JobData, FingerprintsTellDataApart) {
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
TEST(JobData, FingerprintsFollowTheSamples) {
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
TEST(JobData, TokenizersAreComparedByTheContentOfTheirFile) {
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
TEST(JobData, ATokenizerOutsideOfTheDataFolderIsRefused) {
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

TEST(JobData, TokensOfAnotherTokenizerAreRefused) {
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

TEST(JobData, SyntheticDataNeedsNoFiles) {
  JobConfig config;
  config.data.kind = DataKind::kSynthetic;
  config.model = {.layers = 1, .hidden = 16, .heads = 2, .vocab = 17, .seq_len = 8};
  const JobData data = open_data(resolve(config), true);
  EXPECT_EQ(data.train->targets_per_sample(), 8);
  EXPECT_EQ(data.eval, nullptr);
}

}  // namespace
}  // namespace trireme
