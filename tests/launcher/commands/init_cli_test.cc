// trireme init: the job files that it writes can be trained as they stand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/launcher/commands/cli_fixture.h"
#include "tests/support/picture_files.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class InitCli : public Cli {
 protected:
  void SetUp() override {
    testing::write_file(scratch_ / "texts/a.txt", std::string(4000, 'a') + std::string(4000, 'b'));
    ASSERT_EQ(run({"data", "text", "texts", "--out", "data"}).exit_code, 0);
  }
  std::string job() { return testing::read_file(scratch_ / "job.toml"); }
  ProgramResult init(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "init");
    arguments.push_back("--force");
    return run(arguments);
  }
  /// Class folders below pictures/train and pictures/test.
  void write_pictures() {
    int width = 20;  // no picture is also in the other set
    for (const std::string split : {"train", "test"}) {
      for (const std::string name : {"cat/1", "cat/2", "dog/1", "dog/2", "owl/1"}) {
        ++width;
        testing::write_file(
            scratch_ / "pictures" / split / (name + ".jpg"),
            testing::encode_jpeg({.width = width, .height = 20}, testing::gradient(width, 20)));
      }
    }
  }
  /// One short step of the job.
  ProgramResult step(const std::string& out) {
    return run({"train", "job.toml", "--out", out, "--set", "train.steps=1", "--set", "train.eval_batches=1",
                "--set", "train.global_batch=2", "--set", "train.micro_batch=2", "--set",
                "optimizer.warmup_steps=0"});
  }
};

TEST_F(InitCli, JobsOfTextTrainAsTheyStand) {
  for (const std::string name : {"gpt", "llama", "bert", "lstm"}) {
    const ProgramResult result = init({name, "--data", "data"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, AllOf(HasSubstr("\n  trireme train job.toml --out out/job\n"),
                                  Not(HasSubstr("trireme data text"))));
    EXPECT_THAT(job(), AllOf(HasSubstr("eval = \"data\"\n"), HasSubstr("\nmicro_batch = 16 ")));
    const ProgramResult trained = step("run-" + name);
    EXPECT_EQ(trained.exit_code, 0) << trained.err;
  }
}

TEST_F(InitCli, WithoutDataItNamesTheCommandThatWritesThem) {
  std::filesystem::remove_all(scratch_ / "data");
  const ProgramResult result = init({"gpt"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("\n  trireme data text YOUR_TEXTS --out data\n"));
  EXPECT_THAT(job(), HasSubstr("train = \"data\" "));
}

TEST_F(InitCli, DataWithoutEvaluationGiveAJobWithout) {
  ASSERT_EQ(run({"data", "text", "texts", "--out", "whole", "--eval-fraction", "0"}).exit_code, 0);
  ASSERT_EQ(init({"gpt", "--data", "whole"}).exit_code, 0);
  EXPECT_THAT(job(), Not(HasSubstr("eval")));
}

TEST_F(InitCli, JobsOfPicturesTrainAsTheyStand) {
  write_pictures();
  ASSERT_EQ(init({"images", "--data", "pictures"}).exit_code, 0);
  EXPECT_THAT(job(), HasSubstr("\neval = \"pictures/test\"\n"));
  const ProgramResult trained = step("run");
  EXPECT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_THAT(testing::read_file(scratch_ / "run/config.toml"), HasSubstr("\nclasses = 3\n"));
  // A folder of classes alone.
  ASSERT_EQ(init({"images", "--data", "pictures/train"}).exit_code, 0);
  EXPECT_THAT(job(), Not(HasSubstr("eval")));
}

TEST_F(InitCli, JobsOfPretrainedModelsTrainAsTheyStand) {
  ASSERT_EQ(init({"llama", "--data", "data"}).exit_code, 0);
  ASSERT_EQ(step("base").exit_code, 0);
  ASSERT_EQ(run({"export", "base", "--format", "hf", "--out", "hf"}).exit_code, 0);
  const ProgramResult before =
      run({"sample", "hf:hf", "--tokenizer", "bytes", "--prompt", "a", "--tokens", "9"});
  EXPECT_EQ(before.exit_code, 0) << before.err;
  EXPECT_EQ(before.out, run({"sample", "base", "--prompt", "a", "--tokens", "9"}).out);
  for (const std::string name : {"lora", "llama"}) {
    const ProgramResult result = init({name, "--from", "hf:hf", "--data", "data"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(job(), AllOf(HasSubstr("from = \"hf:hf\" "), HasSubstr("init_from = \"hf\" "),
                             Not(HasSubstr("layers"))));
    const ProgramResult trained = step("tuned-" + name);
    EXPECT_EQ(trained.exit_code, 0) << trained.err;
  }
}

TEST_F(InitCli, SamplesAreNoLongerThanTheData) {
  ASSERT_EQ(run({"data", "text", "texts", "--out", "small", "--eval-fraction", "0.01"}).exit_code, 0);
  ASSERT_EQ(init({"llama", "--data", "small"}).exit_code, 0);
  EXPECT_THAT(job(), AllOf(HasSubstr("seq_len = 128 "), Not(HasSubstr("eval"))));
  ASSERT_EQ(step("base").exit_code, 0);
  ASSERT_EQ(run({"export", "base", "--format", "hf", "--out", "hf"}).exit_code, 0);
  ASSERT_EQ(init({"llama", "--from", "hf:hf", "--data", "small"}).exit_code, 0);
  EXPECT_THAT(job(), AllOf(HasSubstr("\nseq_len = 64 "), HasSubstr("\neval = \"small\"\n")));
  const ProgramResult trained = step("tuned");
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  // The exported model reads as much as its base.
  ASSERT_EQ(run({"export", "tuned", "--format", "hf", "--out", "tuned-hf"}).exit_code, 0);
  EXPECT_THAT(testing::read_file(scratch_ / "tuned-hf/config.json"),
              HasSubstr("\"max_position_embeddings\": 128"));
}

TEST_F(InitCli, JobsOfPretrainedVitsTakeNormalisationAndClasses) {
  write_pictures();
  testing::write_file(scratch_ / "vit.toml",
                      "[model]\nname = \"vit\"\nlayers = 1\nhidden = 16\nheads = 2\npatch = 8\n"
                      "[data]\nkind = \"images\"\ntrain = \"pictures/train\"\nimage_size = 16\n"
                      "mean = [0.25, 0.5, 0.5]\nstd = [0.5, 0.5, 0.75]\n"
                      "[train]\nsteps = 1\nglobal_batch = 2\nmicro_batch = 2\n");
  ASSERT_EQ(run({"train", "vit.toml", "--out", "base"}).exit_code, 0);
  ASSERT_EQ(run({"export", "base", "--format", "hf", "--out", "hf"}).exit_code, 0);
  const ProgramResult result = init({"images", "--from", "hf:hf", "--data", "pictures"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(job(), AllOf(HasSubstr("mean = [0.25, 0.5, 0.5] "), HasSubstr("std = [0.5, 0.5, 0.75]\n"),
                           Not(HasSubstr("image_size")), Not(HasSubstr("new_head"))));
  EXPECT_EQ(step("tuned").exit_code, 0);
  std::filesystem::rename(scratch_ / "pictures/train/owl", scratch_ / "pictures/train/emu");
  std::filesystem::rename(scratch_ / "pictures/test/owl", scratch_ / "pictures/test/emu");
  ASSERT_EQ(init({"images", "--from", "hf:hf", "--data", "pictures"}).exit_code, 0);
  EXPECT_THAT(job(), AllOf(HasSubstr("\nclasses = 3 "), HasSubstr("\nnew_head = true ")));
  const ProgramResult trained = step("tuned-emu");
  EXPECT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_THAT(refusal({"init", "gpt", "--from", "hf:hf", "--data", "data", "--force"}),
              HasSubstr("describes a vit, and `trireme init gpt` takes a gpt: use `trireme init images`"));
}

TEST_F(InitCli, JobsOfDiffusionTrainAsTheyStand) {
  write_pictures();
  const ProgramResult result = init({"diffusion", "--data", "pictures"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(job(), AllOf(HasSubstr("\nclasses = 4 "), HasSubstr("\nclass_dropout = 0.1 ")));
  const ProgramResult trained = step("run");
  EXPECT_EQ(trained.exit_code, 0) << trained.err;
  // The error counts the class that stands for none.
  EXPECT_THAT(refusal({"train", "job.toml", "--out", "few", "--set", "model.classes=3"}),
              HasSubstr("set model.classes = 4"));
  ASSERT_EQ(run({"export", "run", "--format", "diffusers", "--out", "by-class"}).exit_code, 0);
  ASSERT_EQ(init({"diffusion", "--from", "hf:by-class", "--data", "pictures"}).exit_code, 0);
  EXPECT_THAT(job(), AllOf(Not(HasSubstr("classes = ")), HasSubstr("\nclass_dropout = 0.1 ")));
  const ProgramResult continued = step("continued");
  EXPECT_EQ(continued.exit_code, 0) << continued.err;
  std::filesystem::remove_all(scratch_ / "pictures/train/cat");
  std::filesystem::remove_all(scratch_ / "pictures/test/cat");
  EXPECT_THAT(refusal({"init", "diffusion", "--from", "hf:by-class", "--data", "pictures", "--force"}),
              AllOf(HasSubstr("2 class folders"), HasSubstr("has 4 classes")));
  for (const std::string split : {"train", "test"}) {
    for (const std::string name : {"cat", "dog"})
      std::filesystem::remove_all(scratch_ / "pictures" / split / name);
  }
  ASSERT_EQ(init({"diffusion", "--data", "pictures"}).exit_code, 0);
  EXPECT_THAT(job(), Not(HasSubstr("classes")));
  ASSERT_EQ(step("unconditional").exit_code, 0);
  ASSERT_EQ(run({"export", "unconditional", "--format", "diffusers", "--out", "pipeline"}).exit_code, 0);
  const ProgramResult tuned = init({"diffusion", "--from", "hf:pipeline", "--data", "pictures"});
  ASSERT_EQ(tuned.exit_code, 0) << tuned.err;
  EXPECT_EQ(step("tuned").exit_code, 0);
}

TEST_F(InitCli, JobsOfDetectionFindTheirAnnotations) {
  for (const std::string split : {"train", "val"}) {
    const int width = split == "train" ? 64 : 65;  // no picture is also in the other set
    testing::write_file(scratch_ / "set" / split / "1.jpg",
                        testing::encode_jpeg({.width = width, .height = 48}, testing::gradient(width, 48)));
    testing::write_file(
        scratch_ / "set/annotations" / ("instances_" + split + ".json"),
        R"({"images": [{"id": 1, "file_name": "1.jpg", "width": )" + std::to_string(width) +
            R"(, "height": 48}], "categories": [{"id": 7, "name": "box"}], "annotations": [{"id": 1, )"
            R"("image_id": 1, "category_id": 7, "bbox": [10, 10, 20, 20], "area": 400, "iscrowd": 0}]})");
  }
  const ProgramResult result = init({"detection", "--data", "set"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(job(), AllOf(HasSubstr("train_annotations = \"set/annotations/instances_train.json\""),
                           HasSubstr("eval = \"set/val\"\n"),
                           HasSubstr("eval_annotations = \"set/annotations/instances_val.json\"\n")));
  const ProgramResult trained = step("run");
  EXPECT_EQ(trained.exit_code, 0) << trained.err;
  std::filesystem::remove_all(scratch_ / "set/annotations");
  EXPECT_THAT(refusal({"init", "detection", "--data", "set", "--force"}),
              HasSubstr("--data set: no annotations were found"));
  for (const std::string split : {"train", "val"}) {
    testing::write_file(scratch_ / "set" / split / "classes.txt", "box\n");
    testing::write_file(scratch_ / "set" / split / "1.txt", "0 0.5 0.5 0.25 0.25\n");
  }
  ASSERT_EQ(init({"detection", "--data", "set"}).exit_code, 0);
  EXPECT_THAT(job(), Not(HasSubstr("annotations")));
  const ProgramResult of_texts = step("run-texts");
  EXPECT_EQ(of_texts.exit_code, 0) << of_texts.err;
  EXPECT_THAT(refusal({"init", "detection", "--force"}), HasSubstr("needs --data: a folder of pictures"));
}

TEST_F(InitCli, JobsOfConversationsTrainOnTheirTargets) {
  std::string text;
  for (int i = 0; i < 400; ++i) text += "a question\t" + std::to_string(i) + "\n";
  testing::write_file(scratch_ / "lines.tsv", text);
  ASSERT_EQ(run({"data", "documents", "lines.tsv", "--out", "talk", "--unlabelled"}).exit_code, 0);
  for (const std::string split : {"train", "eval"}) {  // `trireme data chat` marks the targets like this
    const std::string tokens = testing::read_file(scratch_ / "talk" / (split + ".bin"));
    constexpr std::size_t kHeader = 256 * sizeof(std::int32_t);
    std::string marks = tokens.substr(0, kHeader);
    while (marks.size() < tokens.size()) marks.append({'\1', '\0'});
    testing::write_file(scratch_ / "talk" / (split + ".targets"), marks);
  }
  ASSERT_EQ(init({"gpt", "--data", "talk"}).exit_code, 0);
  EXPECT_THAT(job(), HasSubstr("kind = \"chat\" "));
  const ProgramResult trained = step("run");
  EXPECT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_THAT(trained.err, HasSubstr("conversations in"));

  // Rows of a model with rotary positions are as long as conversations need, not as the model reads.
  testing::write_file(scratch_ / "llama.toml",
                      "[model]\nname = \"llama\"\nlayers = 1\nhidden = 16\nheads = 2\nseq_len = 512\n"
                      "[data]\ntrain = \"data\"\n[train]\nsteps = 1\nglobal_batch = 1\nmicro_batch = 1\n");
  ASSERT_EQ(run({"train", "llama.toml", "--out", "base"}).exit_code, 0);
  ASSERT_EQ(run({"export", "base", "--format", "hf", "--out", "hf"}).exit_code, 0);
  ASSERT_EQ(init({"lora", "--from", "hf:hf", "--data", "talk"}).exit_code, 0);
  EXPECT_THAT(job(), HasSubstr("\nseq_len = 128 "));
}

TEST_F(InitCli, Refusals) {
  testing::write_file(scratch_ / "mine.toml", "x");
  EXPECT_THAT(refusal({"init", "gpt", "--out", "mine.toml"}),
              HasSubstr("mine.toml: the file is there already"));
  EXPECT_EQ(testing::read_file(scratch_ / "mine.toml"), "x");
  EXPECT_THAT(refusal({"init", "gtp"}), HasSubstr("gtp"));
  EXPECT_THAT(refusal({"init", "gpt", "--data", "texts"}), HasSubstr("`trireme data text texts --out data`"));
  EXPECT_THAT(refusal({"init", "gpt", "--data", "none"}), HasSubstr("--data none: there is no such folder"));
  EXPECT_THAT(refusal({"init", "lora", "--data", "data"}), HasSubstr("--from hf:DIR"));
  EXPECT_THAT(refusal({"init", "lora", "--from", "nowhere", "--data", "data"}), HasSubstr("--from nowhere"));
  EXPECT_THAT(refusal({"init", "lora", "--from", "hf:nowhere", "--data", "data"}), HasSubstr("nowhere"));
  EXPECT_THAT(refusal({"init", "lstm", "--from", "hf:nowhere", "--data", "data"}),
              HasSubstr("`trireme init lstm` starts from random weights"));
  EXPECT_THAT(refusal({"init", "images"}), HasSubstr("--data"));
  EXPECT_THAT(refusal({"init", "images", "--data", "texts"}), HasSubstr("texts"));
  std::filesystem::create_directories(scratch_ / "above/classes/cat");
  EXPECT_THAT(refusal({"init", "images", "--data", "above"}), HasSubstr("above has one class folder"));
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "job.toml"));
  EXPECT_THAT(refusal({"train", "job.toml"}), HasSubstr("`trireme init gpt --out job.toml`"));
}

}  // namespace
}  // namespace trireme
