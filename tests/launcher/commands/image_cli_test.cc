// Runs of the built program on images.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/launcher/commands/cli_fixture.h"
#include "tests/support/picture_files.h"

namespace trireme {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

class ImageCli : public Cli {
 protected:
  void SetUp() override {
    for (int i = 0; i < 24; ++i) {
      const std::string name = std::string(i % 2 == 0 ? "dark/" : "light/") + std::to_string(i);
      const auto pixels = testing::gradient(10 + i, 9, static_cast<std::uint8_t>(i % 2 == 0 ? i : 255 - i));
      testing::write_file(scratch_ / "train" / (name + ".jpg"),
                          testing::encode_jpeg({.width = 10 + i, .height = 9}, pixels));
      if (i >= 6) continue;
      testing::write_file(scratch_ / "test" / (name + ".jpg"),  // the bytes must differ
                          testing::encode_jpeg({.width = 9, .height = 10 + i}, pixels));
    }
    testing::write_file(
        scratch_ / "job.toml",
        "[model]\nname = \"resnet20\"\nclasses = 2\n"
        "[data]\nkind = \"images\"\ntrain = \"train\"\neval = \"test\"\nimage_size = 8\nworkers = 2\n"
        "[train]\nsteps = 3\nglobal_batch = 8\nmicro_batch = 4\n"
        "[optimizer]\nname = \"sgd\"\nlr = 0.05\n[parallel]\nthreads = 1\n");
  }
  std::vector<std::string> train(const std::string& out, std::vector<std::string> overrides = {}) {
    std::vector<std::string> command = {"train", "job.toml", "--out", out};
    for (std::string& text : overrides) command.insert(command.end(), {"--set", std::move(text)});
    return command;
  }
  json summary(const std::string& out) {
    return json::parse(testing::read_file(scratch_ / out / "summary.json"));
  }
};

TEST_F(ImageCli, TrainsEvaluatesAndSaysTheSameLater) {
  const ProgramResult trained = run(train("run"));
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_THAT(trained.out, HasSubstr("samples of 8 x 8 pixels"));
  EXPECT_THAT(trained.out, HasSubstr("top-1"));
  std::istringstream lines(testing::read_file(scratch_ / "run/metrics.jsonl"));
  std::string line;
  std::getline(lines, line);
  EXPECT_TRUE(json::parse(line).contains("samples_per_s"));
  EXPECT_TRUE(json::parse(line).contains("data_wait_ms"));
  const json figures = summary("run");
  EXPECT_TRUE(figures["eval_top1"].is_number());
  EXPECT_TRUE(figures["eval_top5"].is_null()) << "with two classes, every class is in the top five";
  EXPECT_THAT(trained.out, ::testing::Not(HasSubstr("top-5")));
  EXPECT_EQ(figures["left_out_samples"], 0);

  const ProgramResult evaluated = run({"eval", "run", "--json"});
  ASSERT_EQ(evaluated.exit_code, 0) << evaluated.err;
  const json report = json::parse(evaluated.out);
  EXPECT_EQ(report["samples"], 6);
  EXPECT_EQ(report["loss"], figures["eval_loss"]);
  EXPECT_EQ(report["top1"], figures["eval_top1"]);
  EXPECT_FALSE(report.contains("top5"));
  EXPECT_THAT(run({"eval", "run", "--data", "train"}).out, HasSubstr("over 24 samples"));
  EXPECT_THAT(refusal({"eval", "run", "--data", "nowhere"}), HasSubstr("nowhere"));
  EXPECT_THAT(refusal({"sample", "run", "--prompt", "x"}),
              HasSubstr("is of a resnet20, which writes no text"));
}

TEST_F(ImageCli, TheStateDoesNotDependOnHowPicturesAreRead) {
  for (const char* mix : {"data.mixup=0", "data.mosaic=0.5"}) {
    const auto hash = [&](const std::string& out, std::vector<std::string> overrides) {
      overrides.emplace_back(mix);
      const ProgramResult result = run(train(out + mix, std::move(overrides)));
      EXPECT_EQ(result.exit_code, 0) << result.err;
      return summary(out + mix)["state_hash"];
    };
    const auto expected = hash("one", {"data.workers=0"});
    EXPECT_EQ(hash("two", {"data.workers=3"}), expected);
    EXPECT_EQ(hash("three", {"data.cache=\"1 MiB\"", "data.workers=auto"}), expected);
    EXPECT_NE(hash("four", {"train.seed=2"}), expected);
  }
}

TEST_F(ImageCli, ABadPictureEndsTheJobOrIsCounted) {
  testing::write_file(scratch_ / "train/dark/bad.jpg", "no picture");
  const ProgramResult failed = run(train("strict"));
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_THAT(failed.err, AllOf(HasSubstr("dark/bad.jpg"), HasSubstr("data.on_bad_image")));
  const ProgramResult skipped = run(train("lenient", {"data.on_bad_image=skip", "train.steps=4"}));
  ASSERT_EQ(skipped.exit_code, 0) << skipped.err;
  EXPECT_THAT(skipped.err, HasSubstr("left out: picture train/dark/bad.jpg"));
  EXPECT_EQ(summary("lenient")["left_out_samples"], 1);
}

TEST_F(ImageCli, ADanglingLinkIsABadPicture) {
  std::filesystem::create_symlink("nowhere.jpg", scratch_ / "train/light/gone.jpg");
  ASSERT_EQ(::mkfifo((scratch_ / "train/light/pipe.jpg").c_str(), 0600), 0);
  const ProgramResult failed = run(train("strict", {"train.steps=4"}));
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_THAT(failed.err, AllOf(HasSubstr("train/light/"), HasSubstr("data.on_bad_image")));
  const ProgramResult skipped = run(train("lenient", {"data.on_bad_image=skip", "train.steps=4"}));
  ASSERT_EQ(skipped.exit_code, 0) << skipped.err;
  EXPECT_THAT(skipped.err, AllOf(HasSubstr("light/gone.jpg is a link to nothing"),
                                 HasSubstr("light/pipe.jpg is not a regular file")));
  EXPECT_EQ(summary("lenient")["left_out_samples"], 2);
}

// If an evaluation fails, its checkpoint is complete. The resumed run evaluates first, so no result is
// missing.
TEST_F(ImageCli, AnEvaluationThatFailsCostsNoCheckpoint) {
  const std::vector<std::string> keys = {"train.eval_every=2", "checkpoint.every=2", "train.steps=4",
                                         "optimizer.schedule=constant"};
  ASSERT_EQ(run(train("whole", keys)).exit_code, 0);
  const auto evaluations = [&](const std::string& out) {
    std::istringstream lines(testing::read_file(scratch_ / out / "metrics.jsonl"));
    std::vector<json> found;
    for (std::string line; std::getline(lines, line);) {
      if (json parsed = json::parse(line); parsed.contains("eval_loss")) found.push_back(std::move(parsed));
    }
    return found;
  };
  const auto manifest = [&](const std::string& checkpoint) {
    return json::parse(testing::read_file(scratch_ / checkpoint / "manifest.json"))["content"];
  };
  const auto whole = evaluations("whole");
  ASSERT_EQ(whole.size(), 2u);
  EXPECT_EQ(manifest("whole/checkpoints/step-000002")["eval_loss"], whole[0]["eval_loss"]);

  const std::filesystem::path picture = scratch_ / "test/dark/0.jpg";
  const std::string good = testing::read_file(picture);
  testing::write_file(picture, "no picture");
  const ProgramResult first = run(train("run", keys));
  EXPECT_EQ(first.exit_code, 1);
  EXPECT_THAT(first.err, HasSubstr("dark/0.jpg"));
  EXPECT_EQ(manifest("run/checkpoints/step-000002")["evaluation_due"], true);
  EXPECT_EQ(manifest("run/checkpoints/step-000002")["eval_loss"], nullptr);
  // The same command fails again without another step: the evaluation is not forgotten.
  EXPECT_EQ(run(train("run", keys)).exit_code, 1);
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "run/checkpoints/step-000004"));

  testing::write_file(picture, good);
  std::vector<std::string> shorter = keys;
  shorter.emplace_back("train.steps=3");
  ASSERT_EQ(run(train("run", shorter)).exit_code, 0);
  EXPECT_EQ(manifest("run/checkpoints/step-000002")["evaluation_due"], false);
  testing::write_file(picture, "no picture");
  EXPECT_EQ(run(train("run", keys)).exit_code, 1);  // after the last step
  EXPECT_EQ(manifest("run/checkpoints/step-000004")["evaluation_due"], true);
  testing::write_file(picture, good);
  const ProgramResult last = run(train("run", keys));
  ASSERT_EQ(last.exit_code, 0) << last.err;
  const auto made_up = evaluations("run");
  ASSERT_EQ(made_up.size(), 3u);  // 2, 3 and 4
  EXPECT_EQ(made_up[0], whole[0]);
  EXPECT_EQ(made_up[2], whole[1]);
  EXPECT_EQ(summary("run")["eval_loss"], summary("whole")["eval_loss"]);
  json repaired = manifest("run/checkpoints/step-000004");
  EXPECT_NE(repaired["data"]["eval"], manifest("whole/checkpoints/step-000004")["data"]["eval"]);
  repaired["data"]["eval"] = manifest("whole/checkpoints/step-000004")["data"]["eval"];
  EXPECT_EQ(repaired, manifest("whole/checkpoints/step-000004"));
}

// The bad image affects neither the loss nor the accuracy.
TEST_F(ImageCli, ABadPictureDoesNotCountInAnEvaluation) {
  ASSERT_EQ(run(train("run", {"data.on_bad_image=skip", "train.steps=4"})).exit_code, 0);
  const auto evaluate = [&] {
    const ProgramResult result = run({"eval", "run", "--data", "test", "--json"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return nlohmann::json::parse(result.out);
  };
  const auto whole = evaluate();
  for (const char* name : {"test/dark/a.jpg", "test/dark/z.jpg"})
    testing::write_file(scratch_ / name, "none");
  const auto lacking = evaluate();
  EXPECT_EQ(lacking["samples"], whole["samples"]);
  EXPECT_EQ(lacking["left_out_samples"], 2);
  EXPECT_EQ(lacking["top1"], whole["top1"]);
  EXPECT_NEAR(lacking["loss"].get<double>(), whole["loss"].get<double>(), 1e-5);
}

TEST_F(ImageCli, EvalLeavesBadPicturesOutOnRequest) {
  ASSERT_EQ(run(train("run", {"train.steps=1"})).exit_code, 0);
  testing::write_file(scratch_ / "test/dark/a.jpg", "none");
  const ProgramResult failed = run({"eval", "run", "--data", "test"});
  EXPECT_EQ(failed.exit_code, 2) << failed.err;
  EXPECT_THAT(failed.err, AllOf(HasSubstr("a.jpg"), HasSubstr("--on-bad-image skip")));
  const ProgramResult left_out = run({"eval", "run", "--data", "test", "--on-bad-image", "skip", "--json"});
  ASSERT_EQ(left_out.exit_code, 0) << left_out.err;
  EXPECT_EQ(nlohmann::json::parse(left_out.out)["left_out_samples"], 1);
  EXPECT_EQ(run({"eval", "run", "--on-bad-image", "ignore"}).exit_code, 2);
}

TEST_F(ImageCli, RefusesBeforeStepOne) {
  EXPECT_THAT(refusal(train("x", {"data.kind=image"})), HasSubstr("did you mean \"images\"?"));
  EXPECT_THAT(refusal(train("x", {"data.kind=tokens"})), HasSubstr("set it to \"images\""));
  EXPECT_THAT(refusal(train("x", {"data.imge_size=8"})), HasSubstr("did you mean data.image_size?"));
  EXPECT_THAT(refusal(train("x", {"data.workers=many"})), HasSubstr("\"auto\" or a number from 0 to 256"));
  EXPECT_THAT(refusal(train("x", {"data.std=[1, 0, 1]"})), HasSubstr("data.std"));
  EXPECT_THAT(refusal(train("x", {"data.crop_area=[0.5, 0.25]"})), HasSubstr("the least comes first"));
  EXPECT_THAT(refusal(train("x", {"model.classes=10"})),
              AllOf(HasSubstr("data.train: "), HasSubstr("set model.classes = 2")));
  std::filesystem::rename(scratch_ / "test/dark", scratch_ / "test/drak");
  EXPECT_THAT(
      refusal(train("x")),
      AllOf(HasSubstr("label 0 is 'dark' in data.train = \"train\" and 'drak' in data.eval = \"test\""),
            HasSubstr("Both must have the same class folders")));
  std::filesystem::create_directories(scratch_ / "train/empty");
  EXPECT_THAT(refusal(train("x")), AllOf(HasSubstr("train/empty"), HasSubstr("no pictures")));
}

TEST_F(ImageCli, CopiesOfTrainingPicturesAreNoEvaluation) {
  namespace fs = std::filesystem;
  fs::copy_file(scratch_ / "train/light/9.jpg", scratch_ / "test/light/copy.jpg");
  EXPECT_THAT(
      refusal(train("x")),
      AllOf(HasSubstr("1 file(s) of data.eval = \"test\" are also in data.train = \"train\", the first is "
                      "test/light/copy.jpg (a copy of train/light/9.jpg)"),
            HasSubstr("data.allow_eval_in_train = true")));
  EXPECT_EQ(run(train("meant", {"data.allow_eval_in_train=true", "train.steps=1"})).exit_code, 0);
  // A few copies among many files are only a warning; published data sets have some.
  for (int i = 0; i < 100; ++i) {
    const auto pixels = testing::gradient(7, 8, static_cast<std::uint8_t>(i));
    testing::write_file(scratch_ / "test/dark" / (std::to_string(100 + i) + ".jpg"),
                        testing::encode_jpeg({.width = 7, .height = 8}, pixels));
  }
  const ProgramResult few = run(train("few", {"train.steps=1"}));
  EXPECT_EQ(few.exit_code, 0) << few.err;
  EXPECT_THAT(few.err, HasSubstr("test/light/copy.jpg (a copy of train/light/9.jpg)"));
}

// Classes are compared by name before their number, as names are more informative.
TEST_F(ImageCli, ACheckpointKnowsItsClasses) {
  ASSERT_EQ(run(train("run")).exit_code, 0);
  namespace fs = std::filesystem;
  fs::copy(scratch_ / "test", scratch_ / "other", fs::copy_options::recursive);
  fs::rename(scratch_ / "other/light", scratch_ / "other/bright");
  EXPECT_THAT(
      refusal({"eval", "run", "--data", "other"}),
      AllOf(
          HasSubstr("label 0 is 'dark' in run/checkpoints/step-000003 and 'bright' in data.eval = \"other\""),
          HasSubstr("only in run/checkpoints/step-000003: 'light'"),
          HasSubstr("choose data with the same classes")));
  testing::write_file(scratch_ / "other/grey/1.jpg", "x");
  EXPECT_THAT(refusal({"eval", "run", "--data", "other"}), HasSubstr("'bright', 'grey'"));

  for (const char* split : {"train", "test"}) {
    fs::rename(scratch_ / split / "dark", scratch_ / split / "sombre");
  }
  EXPECT_THAT(
      refusal(train("run", {"train.steps=5"})),
      AllOf(
          HasSubstr("label 0 is 'dark' in run/checkpoints/step-000003 and 'light' in data.train = \"train\""),
          HasSubstr("checkpoint.resume = \"never\"")));
  EXPECT_EQ(run(train("fresh")).exit_code, 0);
  for (const char* split : {"train", "test"}) {
    fs::rename(scratch_ / split / "sombre", scratch_ / split / "dark");
  }
  EXPECT_EQ(run(train("run", {"train.steps=5"})).exit_code, 0);
}

TEST_F(ImageCli, ACheckpointKnowsItsPicturesAndHowTheyAreSeen) {
  ASSERT_EQ(run(train("run")).exit_code, 0);
  const std::vector<std::string> on = {"train.steps=5"};
  const auto with = [&](const std::string& key) { return std::vector<std::string>{"train.steps=5", key}; };
  EXPECT_THAT(
      refusal(train("run", with("data.mean=[0.5, 0.5, 0.5]"))),
      AllOf(HasSubstr("run/checkpoints/step-000003 was made with another normalisation of pictures: "
                      "data.mean = [0.485, 0.456, 0.406]"),
            HasSubstr("the job has data.mean = [0.5, 0.5, 0.5]"), HasSubstr("checkpoint.new_data = true")));
  EXPECT_THAT(refusal(train("run", with("data.image_size=12"))),
              AllOf(HasSubstr("data.image_size = 8"), HasSubstr("data.image_size = 12")));
  EXPECT_THAT(refusal(train("tuned", {"model.init_from=run", "data.std=[1, 1, 1]"})),
              AllOf(HasSubstr("model.init_from: "), HasSubstr("another normalisation of pictures")));
  EXPECT_EQ(run(train("tuned", {"model.init_from=run", "data.image_size=12"})).exit_code, 0);
  for (const auto& [key, words] : {std::pair{"data.image_size=12", "another view of pictures"},
                                   {"data.std=[1, 1, 1]", "another normalisation of pictures"}}) {
    const ProgramResult seen = run({"eval", "run", "--set", key});
    EXPECT_EQ(seen.exit_code, 0) << seen.err;
    EXPECT_THAT(seen.err, HasSubstr(std::string("run/checkpoints/step-000003 was made with ") + words));
  }

  // An additional image is other data; a repaired one is the same data, with a warning.
  namespace fs = std::filesystem;
  fs::copy(scratch_ / "train/dark/0.jpg", scratch_ / "train/dark/more.jpg");
  EXPECT_THAT(refusal(train("run", on)),
              AllOf(HasSubstr("24 pictures in 2 class folders, hash "), HasSubstr("has 25 pictures")));
  fs::remove(scratch_ / "train/dark/more.jpg");
  fs::copy(scratch_ / "train/dark/2.jpg", scratch_ / "train/dark/0.jpg",
           fs::copy_options::overwrite_existing);
  fs::rename(scratch_ / "train", scratch_ / "moved");
  const ProgramResult repaired = run(train("run", {"train.steps=5", "data.train=moved"}));
  EXPECT_EQ(repaired.exit_code, 0) << repaired.err;
  EXPECT_THAT(repaired.err, HasSubstr("the names of the files are the same, and so is their order"));
}

// The first samples alone would miss the last class.
TEST_F(ImageCli, APartialEvaluationSeesEveryClass) {
  for (int i = 0; i < 40; ++i) {
    const auto pixels = testing::gradient(9, 9, static_cast<std::uint8_t>(5 * i));
    testing::write_file(scratch_ / "many" / (i < 20 ? "dark" : "light") / (std::to_string(i) + ".jpg"),
                        testing::encode_jpeg({.width = 9, .height = 9}, pixels));
  }
  const auto loss = [&](const std::string& out, const std::string& path, const std::string& batches) {
    EXPECT_EQ(run(train(out, {"data.eval=" + path, "train.eval_batches=" + batches})).exit_code, 0);
    return summary(out)["eval_loss"].get<double>();
  };
  // 8 of 40 are every fifth, in the order of their names.
  std::vector<std::filesystem::path> files;
  for (const char* name : {"dark", "light"}) {
    for (const auto& entry : std::filesystem::directory_iterator(scratch_ / "many" / name))
      files.push_back(entry.path());
  }
  std::ranges::sort(files);
  for (std::size_t i = 0; i < files.size(); i += 5) {
    const auto to = scratch_ / "few" / files[i].parent_path().filename();
    std::filesystem::create_directories(to);
    std::filesystem::copy(files[i], to);
  }
  EXPECT_EQ(loss("part", "many", "1"), loss("whole", "few", "0"));
}

TEST_F(ImageCli, AModelLeavesAndComesBack) {
  ASSERT_EQ(run(train("run")).exit_code, 0);
  const ProgramResult exported = run({"export", "run", "--out", "model.safetensors"});
  ASSERT_EQ(exported.exit_code, 0) << exported.err;
  EXPECT_THAT(exported.out, HasSubstr("tensors of run/checkpoints/step-000003"));
  // A step with a negligible learning rate changes only running statistics, so the loss is the same.
  const auto figures = [&](const std::string& out, std::vector<std::string> more) {
    more.insert(more.end(), {"train.steps=1", "optimizer.lr=1e-30", "optimizer.weight_decay=0"});
    const ProgramResult result = run(train(out, std::move(more)));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return std::pair{result.out, summary(out)};
  };
  const auto [text, again] = figures("again", {"model.init_from=model.safetensors"});
  EXPECT_THAT(text, HasSubstr("starting from model.safetensors"));
  EXPECT_NE(again["loss"], figures("fresh", {}).second["loss"]);
  ASSERT_EQ(run({"export", "again", "--out", "again.safetensors"}).exit_code, 0);
  EXPECT_EQ(figures("third", {"model.init_from=again.safetensors"}).second["loss"], again["loss"]);

  EXPECT_THAT(refusal(train("x", {"model.init_from=nowhere.safetensors"})),
              AllOf(HasSubstr("model.init_from: "), HasSubstr("nowhere.safetensors")));
  EXPECT_THAT(refusal(train("x", {"model.init_from=job.toml"})), HasSubstr("job.toml"));
  EXPECT_THAT(refusal(train("x", {"model.init_from=model.safetensors", "model.name=resnet56"})),
              HasSubstr("model.init_from: model.safetensors has no tensor 'layer1.3.conv1.weight'"));
  ASSERT_EQ(run(train("large", {"model.name=resnet56", "train.steps=1"})).exit_code, 0);
  ASSERT_EQ(run({"export", "large", "--out", "large.safetensors"}).exit_code, 0);
  EXPECT_THAT(refusal(train("x", {"model.init_from=large.safetensors"})),
              HasSubstr("large.safetensors holds the tensor 'layer1.3.bn1.bias', which this model"));
  EXPECT_THAT(refusal(train("x", {"model.init_from=model.safetensors", "model.classes=3",
                                  "data.kind=synthetic", "data.train=", "data.eval="})),
              HasSubstr("tensor 'fc.weight' is F32 [2, 64], this model needs F32 [3, 64]"));
  EXPECT_THAT(refusal({"export", "run", "--out", "train"}), HasSubstr("is not the name of a file"));
  EXPECT_THAT(refusal({"export", "nowhere", "--out", "y"}), HasSubstr("there is no checkpoint nowhere"));
}

// Fine-tuning for other classes: all tensors but the last layer come from the file.
TEST_F(ImageCli, ANewHeadOnAPretrainedModel) {
  ASSERT_EQ(run(train("run")).exit_code, 0);
  const std::vector<std::string> other_classes{"model.init_from=run", "model.classes=3",
                                               "data.kind=synthetic", "data.train=", "data.eval="};
  const auto with = [&](std::initializer_list<std::string> more) {
    std::vector<std::string> keys = other_classes;
    keys.insert(keys.end(), more);
    return keys;
  };
  EXPECT_THAT(refusal(train("x", other_classes)),
              AllOf(HasSubstr("tensor 'fc.weight'"),
                    HasSubstr("set model.new_head = true to initialize the classification layer")));
  const ProgramResult tuned = run(train("tuned", with({"model.new_head=true"})));
  EXPECT_EQ(tuned.exit_code, 0) << tuned.err;
  EXPECT_THAT(tuned.out,
              HasSubstr("starting from run; not there, and drawn from train.seed: fc.weight, fc.bias"));
  // The new head has the same bits on two layouts, even if the number of classes is the same as in the file.
  const auto state = [&](const std::string& out, std::vector<std::string> keys) {
    keys.insert(keys.end(), {"train.steps=1", "model.new_head=true"});
    const ProgramResult result = run(train(out, std::move(keys)));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return summary(out)["state_hash"];
  };
  EXPECT_EQ(state("plain", other_classes), state("recomputed", with({"parallel.recompute_every=1"})));
  EXPECT_NE(state("two", {"model.init_from=run"}), state("seeded", {"model.init_from=run", "train.seed=99"}));

  EXPECT_THAT(refusal(train("x", {"model.new_head=true"})),
              HasSubstr("model.new_head = true needs model.init_from"));
}

TEST_F(ImageCli, KeptPicturesAreInThePrediction) {
  const auto plan = [&](const std::string& cache) {
    return run(
        {"plan", "job.toml", "--set", "data.cache=" + cache, "--set", "parallel.memory_limit=\"40 MiB\""});
  };
  const std::vector<std::string> exact = {"plan", "job.toml", "--set", "data.cache=1048576", "--memory"};
  EXPECT_THAT(run(exact).out, ::testing::ContainsRegex("data +1048576 +1048576"));
  const ProgramResult large = plan("\"1 GiB\"");
  EXPECT_EQ(large.exit_code, 2);
  EXPECT_THAT(large.out, ::testing::ContainsRegex("\nwith data.cache = \"[0-9]+ MiB\" it fits"));
}

// ResNet-50 through the program, compared with the plan.
TEST_F(ImageCli, ResNet50NeedsWhatIsPlanned) {
  const std::vector<std::string> keys = {
      "model.name=resnet50", "model.classes=1000",   "data.kind=synthetic", "data.train=",
      "data.eval=",          "data.image_size=224",  "train.micro_batch=1", "train.global_batch=1",
      "train.steps=1",       "optimizer.momentum=0", "parallel.threads=2"};
  std::vector<std::string> command = {"plan", "job.toml", "--json"};
  for (const std::string& key : keys) command.insert(command.end(), {"--set", key});
  const json planned = json::parse(run(command).out);
  EXPECT_EQ(planned["parameters"], 25557032);
  const ProgramResult trained = run(train("run", keys));
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  json line = json::parse(testing::read_file(scratch_ / "run/metrics.jsonl"));
  line["memory"].erase("workspace");
  EXPECT_EQ(line["memory"], planned["groups"][0]["memory"]);
  EXPECT_EQ(line["peak_bytes"], planned["groups"][0]["peak_bytes"]);
}

TEST_F(ImageCli, SyntheticImagesNeedNoFiles) {
  const ProgramResult result = run(train("s", {"data.kind=synthetic", "data.train=", "data.eval=yes"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(summary("s")["eval_top1"].is_number());
  for (const char* key : {"data.mixup=0.4", "data.mosaic=0.5"}) {
    EXPECT_THAT(refusal(train("m", {"data.kind=synthetic", "data.train=", key})),
                HasSubstr("mixes pictures, but data.kind = \"synthetic\" has none"));
  }
  EXPECT_THAT(run({"plan", "job.toml", "--set", "data.mosaic=0.5"}).out,
              HasSubstr("2 classes, images of 8 x 8"));
}

}  // namespace
}  // namespace trireme
