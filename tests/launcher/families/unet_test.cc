// UNets as jobs: keys, refusals, folders of diffusers, and `trireme sample --images`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "launcher/data/diffusion_data.h"
#include "launcher/job/build.h"
#include "launcher/keys/job_file.h"
#include "runtime/checkpoint/safetensors_reader.h"
#include "runtime/checkpoint/safetensors_writer.h"
#include "tests/launcher/commands/cli_fixture.h"
#include "tests/launcher/config/error_matchers.h"

namespace trireme {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kTinyUnet =
    "[model]\nname = \"unet\"\nwidths = [8, 16]\nattention_levels = [1]\nlayers = 1\nnorm_groups = 4\n"
    "classes = 3\n[data]\nkind = \"synthetic\"\nimage_size = 8\n[diffusion]\nclass_dropout = 0.2\n"
    "[train]\nsteps = 2\nglobal_batch = 4\nmicro_batch = 2\n"
    "[optimizer]\nlr = 1e-3\nschedule = \"constant\"\n[parallel]\nthreads = 1\n";

const std::vector<std::string> kConditionKeys = {
    "model.classes=0", "model.channels=4", "model.condition_width=6", "model.seq_len=5", "model.heads=2"};

std::vector<std::string> with(std::vector<std::string> keys, const std::vector<std::string>& more) {
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

JobConfig unet_job(const std::vector<std::string>& overrides = {}) {
  return resolve(parse_config(kTinyUnet, "job.toml", overrides));
}

std::string unet_refusal(const std::vector<std::string>& overrides) {
  return error_message([&] { unet_job(overrides); });
}

TEST(UnetFamily, FillsInTheShapeAndTheSample) {
  EXPECT_THAT(unet_job().model.widths, ElementsAre(8, 16));
  EXPECT_EQ(unet_job().model.image_size, 8);
  JobConfig sized;
  sized.model = {.name = "unet", .size = "sd1"};
  sized.data.kind = DataKind::kSynthetic;
  const JobConfig large = resolve(sized);
  EXPECT_THAT(large.model.widths, ElementsAre(320, 640, 1280, 1280));
  EXPECT_EQ(large.data.image_size, 64);
  const SampleSpec spec = kDiffusionData.sample_spec(large);
  EXPECT_EQ(spec.input, (Shape{64, 64, 4}));
  EXPECT_EQ(spec.condition, (Shape{77, 768}));
  EXPECT_FALSE(spec.classes);
  EXPECT_TRUE(kDiffusionData.sample_spec(unet_job()).classes);
}

TEST(UnetFamily, RefusesWhatCannotTrain) {
  EXPECT_THAT(unet_refusal({"model.widths=[]"}), HasSubstr("give model.size, or model.widths"));
  EXPECT_THAT(unet_refusal({"model.norm_groups=3"}), HasSubstr("norm_groups 3 do not divide the width 8"));
  EXPECT_THAT(unet_refusal({"model.attention_levels=[2]"}), HasSubstr("attention at level 2"));
  EXPECT_THAT(unet_refusal({"model.heads=2", "model.head_width=4"}), HasSubstr("set one of them to 0"));
  EXPECT_THAT(unet_refusal({"data.image_size=9"}),
              AllOf(HasSubstr("data.image_size = 9"), HasSubstr("10 is")));
  EXPECT_THAT(unet_refusal({"diffusion.betas=[0.5, 0.1]"}), HasSubstr("diffusion.betas = [0.5, 0.1]"));
  EXPECT_THAT(unet_refusal({"diffusion.betas=[0.5, 1.5]"}), HasSubstr("diffusion.betas"));
  EXPECT_THAT(unet_refusal({"diffusion.schedule=quadratic"}),
              HasSubstr("\"linear\", \"scaled_linear\", \"cosine\""));
  EXPECT_THAT(unet_refusal({"diffusion.min_snr_gamma=-1"}), HasSubstr("diffusion.min_snr_gamma"));
  EXPECT_THAT(unet_refusal({"diffusion.class_dropout=1"}), HasSubstr("diffusion.class_dropout"));
  EXPECT_THAT(unet_refusal({"diffusion.steps_offset=1000"}), HasSubstr("diffusion.steps_offset"));
  EXPECT_THAT(unet_refusal({"diffusion.steps=50"}), HasSubstr("diffusion.steps"));
  EXPECT_THAT(unet_refusal({"diffusion.prediction=velocity"}), HasSubstr("allowed: \"epsilon\", \"v\""));
  EXPECT_THAT(unet_refusal({"model.classes=0"}),
              HasSubstr("diffusion.class_dropout = 0.2 needs model.classes"));
  EXPECT_THAT(unet_refusal({"parallel.tensor=2"}), HasSubstr("convolutions"));
}

TEST(UnetFamily, ReadsTheKeysOfTheNoise) {
  const DiffusionSection defaults = unet_job({"diffusion.class_dropout=0"}).diffusion;
  EXPECT_EQ(defaults.schedule, NoiseSchedule::Kind::kLinear);
  EXPECT_EQ(defaults.prediction, DiffusionTarget::kNoise);
  const DiffusionSection given =
      unet_job({"diffusion.schedule=scaled_linear", "diffusion.betas=[0.001, 0.01]", "diffusion.prediction=v",
                "diffusion.min_snr_gamma=5", "diffusion.steps_offset=1", "diffusion.set_alpha_to_one=false"})
          .diffusion;
  EXPECT_EQ(given.schedule, NoiseSchedule::Kind::kScaledLinear);
  EXPECT_THAT(given.betas, ElementsAre(0.001, 0.01));
  EXPECT_EQ(given.prediction, DiffusionTarget::kVelocity);
  EXPECT_EQ(given.min_snr_gamma, 5);
  EXPECT_EQ(given.class_dropout, 0.2);
  EXPECT_EQ(given.steps_offset, 1);
  EXPECT_FALSE(given.set_alpha_to_one);
  EXPECT_NEAR(NoiseSchedule(noise_schedule_of(given)).alpha_product(0), 0.999, 1e-12);
}

class UnetCli : public Cli {
 protected:
  void SetUp() override { testing::write_file(scratch_ / "job.toml", kTinyUnet); }
  void train(const std::string& out, const std::vector<std::string>& overrides = {}) {
    std::vector<std::string> command = {"train", "job.toml", "--out", out};
    for (const std::string& text : overrides) command.insert(command.end(), {"--set", text});
    const ProgramResult result = run(command);
    ASSERT_EQ(result.exit_code, 0) << result.err;
  }
  std::string state_hash(const std::string& out) {
    return json::parse(testing::read_file(scratch_ / out / "summary.json"))["state_hash"];
  }
  std::vector<std::string> sample(const std::string& from, const std::vector<std::string>& options) {
    return with({"sample", from, "--images", "3", "--threads", "1", "--steps", "2"}, options);
  }
  /// Writes latents [8, side, side, 4] and conditions [8, 5, 6], all different.
  void write_shard(const std::string& file, std::int64_t side) {
    const std::int64_t latents = 8 * side * side * 4, conditions = 8 * 5 * 6;
    std::vector<float> values;
    for (std::int64_t i = 0; i < latents + conditions; ++i) {
      values.push_back(static_cast<float>(i % 17) / 8 - 1);
    }
    std::filesystem::create_directories((scratch_ / file).parent_path());
    SafetensorsWriter writer(scratch_ / file,
                             {{.name = "latents", .dtype = "F32", .shape = {8, side, side, 4}},
                              {.name = "condition", .dtype = "F32", .shape = {8, 5, 6}}});
    writer.append(std::span<const float>(values));
    writer.commit();
  }
};

TEST_F(UnetCli, SamplesPicturesFromARunAndItsFolderOfDiffusers) {
  train("run");
  const ProgramResult grid =
      run(sample("run", {"--grid", "grid.png", "--out", "pictures", "--guidance", "2"}));
  ASSERT_EQ(grid.exit_code, 0) << grid.err;
  EXPECT_THAT(grid.out, HasSubstr("grid.png: 3 samples, 2 steps of ddim"));
  EXPECT_THAT(testing::read_file(scratch_ / "grid.png"), ::testing::StartsWith("\x89PNG"));
  EXPECT_TRUE(std::filesystem::exists(scratch_ / "pictures/00002.png"));
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "pictures/00003.png"));

  ASSERT_EQ(run({"export", "run", "--format", "diffusers", "--out", "folder"}).exit_code, 0);
  const json scheduler = json::parse(testing::read_file(scratch_ / "folder/scheduler/scheduler_config.json"));
  EXPECT_EQ(scheduler["prediction_type"], "epsilon");
  EXPECT_EQ(json::parse(testing::read_file(scratch_ / "folder/unet/config.json"))["num_class_embeds"], 3);
  ASSERT_EQ(run(sample("folder", {"--class", "1", "--latents", "a.safetensors"})).exit_code, 0);
  ASSERT_EQ(run(sample("folder", {"--class", "1", "--latents", "b.safetensors"})).exit_code, 0);
  ASSERT_EQ(run(sample("folder", {"--class", "2", "--latents", "c.safetensors"})).exit_code, 0);
  const std::string first = testing::read_file(scratch_ / "a.safetensors");
  EXPECT_TRUE(first == testing::read_file(scratch_ / "b.safetensors"));
  EXPECT_FALSE(first == testing::read_file(scratch_ / "c.safetensors"));
}

TEST_F(UnetCli, APictureOfARunGoesToItsPage) {
  train("run");
  const ProgramResult result = run(sample("run", {}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("run/grid.png: 3 samples"));
  EXPECT_THAT(testing::read_file(scratch_ / "run/grid.png"), ::testing::StartsWith("\x89PNG"));
}

// Its timesteps begin at 1, and its samples keep the noise of timestep 0.
TEST_F(UnetCli, SamplesWithTheSchedulerOfStableDiffusion) {
  // One picture: how many are computed at once can change their last bits.
  const auto make = [&](const char* from, const std::string& name) {
    const ProgramResult result = run({"sample", from, "--images", "1", "--threads", "1", "--steps", "2",
                                      "--class", "1", "--latents", name + ".safetensors"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
  };
  train("run");
  ASSERT_EQ(run({"export", "run", "--format", "diffusers", "--out", "folder"}).exit_code, 0);
  make("folder", "plain");
  const std::string file = (scratch_ / "folder/scheduler/scheduler_config.json").string();
  json scheduler = json::parse(testing::read_file(file));
  scheduler["_class_name"] = "PNDMScheduler";  // set_alpha_to_one: false by default
  scheduler["steps_offset"] = 1;
  testing::write_file(file, scheduler.dump());
  make("folder", "theirs");
  train("shifted", {"diffusion.steps_offset=1", "diffusion.set_alpha_to_one=false"});
  make("shifted", "ours");
  EXPECT_EQ(state_hash("shifted"), state_hash("run"));  // of sampling alone
  const std::string ours = testing::read_file(scratch_ / "ours.safetensors");
  EXPECT_TRUE(ours == testing::read_file(scratch_ / "theirs.safetensors"));
  EXPECT_FALSE(ours == testing::read_file(scratch_ / "plain.safetensors"));
  EXPECT_THAT(refusal({"sample", "folder", "--images", "1", "--grid", "g.png", "--steps", "1000"}),
              HasSubstr("steps_offset = 1 begin at timestep 1000"));

  ASSERT_EQ(run({"export", "shifted", "--format", "diffusers", "--out", "again"}).exit_code, 0);
  scheduler = json::parse(testing::read_file(scratch_ / "again/scheduler/scheduler_config.json"));
  EXPECT_EQ(scheduler["_class_name"], "DDIMScheduler");
  EXPECT_EQ(scheduler["steps_offset"], 1);
  EXPECT_EQ(scheduler["set_alpha_to_one"], false);
  scheduler["steps_offset"] = 1000;
  testing::write_file(file, scheduler.dump());
  EXPECT_THAT(refusal(sample("folder", {"--grid", "g.png"})), HasSubstr("steps_offset"));
}

TEST_F(UnetCli, StartsFromAFolderOfDiffusers) {
  train("run");
  ASSERT_EQ(run({"export", "run", "--format", "diffusers", "--out", "folder"}).exit_code, 0);
  testing::write_file(scratch_ / "back.toml",
                      "[model]\nfrom = \"hf:folder\"\ninit_from = \"folder\"\n[data]\nkind = \"synthetic\"\n"
                      "[train]\nsteps = 1\nglobal_batch = 2\nmicro_batch = 2\n[parallel]\nthreads = 1\n"
                      "[optimizer]\nname = \"sgd\"\nlr = 1e-40\nweight_decay = 0.0\n");
  const ProgramResult back = run({"train", "back.toml", "--out", "back"});
  ASSERT_EQ(back.exit_code, 0) << back.err;
  ASSERT_EQ(run({"export", "back", "--format", "diffusers", "--out", "again"}).exit_code, 0);
  const SafetensorsReader before(scratch_ / "folder/unet/diffusion_pytorch_model.safetensors");
  const SafetensorsReader after(scratch_ / "again/unet/diffusion_pytorch_model.safetensors");
  ASSERT_EQ(before.tensors().size(), after.tensors().size());
  for (const SafetensorsTensor& tensor : before.tensors()) {
    EXPECT_TRUE(std::ranges::equal(tensor.data, after.tensor(tensor.name).data)) << tensor.name;
  }

  const std::string file = (scratch_ / "folder/scheduler/scheduler_config.json").string();
  json scheduler = json::parse(testing::read_file(file));
  scheduler["_class_name"] = "FlowMatchEulerDiscreteScheduler";
  testing::write_file(file, scheduler.dump());
  EXPECT_THAT(refusal({"train", "back.toml", "--out", "flow"}),
              AllOf(HasSubstr("FlowMatchEulerDiscreteScheduler"), HasSubstr("DDPMScheduler")));
  std::filesystem::remove_all(scratch_ / "folder/unet");
  EXPECT_THAT(refusal({"train", "back.toml", "--out", "none"}), HasSubstr("without unet/"));
}

TEST_F(UnetCli, RefusesOptionsThatTheModelDoesNotHave) {
  train("run", {"model.classes=0", "diffusion.class_dropout=0"});
  const auto refused = [&](const std::vector<std::string>& options) {
    return refusal(sample("run", options));
  };
  EXPECT_THAT(refused({"--grid", "g.png", "--guidance", "3"}), HasSubstr("no classes and no condition"));
  EXPECT_THAT(refused({"--grid", "g.png", "--class", "0"}), HasSubstr("the model has no classes"));
  EXPECT_THAT(refused({"--grid", "g.jpg"}), HasSubstr("ends in .png"));
  EXPECT_THAT(refused({"--grid", "absent/g.png"}), HasSubstr("--grid absent/g.png"));
  EXPECT_THAT(refused({"--out", "job.toml"}), HasSubstr("--out job.toml is a file"));
  EXPECT_THAT(refusal(sample("run/checkpoints/step-000002", {})), HasSubstr("say where to write them"));
  EXPECT_THAT(refused({"--grid", "g.png", "--prompt", "Once"}), HasSubstr("--prompt"));
  EXPECT_THAT(refusal({"sample", "run", "--grid", "g.png"}), HasSubstr("--images"));
  EXPECT_THAT(refusal({"sample", "run"}), HasSubstr("say how many with --images"));
  EXPECT_THAT(refusal({"export", "run", "--format", "hf", "--out", "hf"}), HasSubstr("--format diffusers"));
}

TEST_F(UnetCli, TrainsAndSamplesLatents) {
  write_shard("train/shard.safetensors", 8);
  const std::vector<std::string> keys = with(kConditionKeys, {"data.kind=latents", "data.train=train"});
  train("run", with(keys, {"data.workers=0"}));
  train("workers", with(keys, {"data.workers=2"}));
  EXPECT_EQ(state_hash("run"), state_hash("workers"));
  const std::string shard = "train/shard.safetensors";
  const ProgramResult result =
      run(sample("run", {"--latents", "made.safetensors", "--condition", shard, "--guidance", "2"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(SafetensorsReader(scratch_ / "made.safetensors").tensor("latents").shape,
              ElementsAre(3, 8, 8, 4));
  EXPECT_THAT(refusal(sample("run", {"--latents", "x.safetensors"})), HasSubstr("the tensor `condition`"));
  EXPECT_THAT(refusal(sample("run", {"--grid", "g.png", "--condition", shard})),
              HasSubstr("model.channels = 4: write --latents"));

  std::vector<std::string> absent = {"train", "job.toml", "--out", "absent"};
  for (const std::string& text : with(keys, {"model.classes=4"}))
    absent.insert(absent.end(), {"--set", text});
  EXPECT_THAT(refusal(absent),
              AllOf(HasSubstr("data.train: train/shard.safetensors"), HasSubstr("no tensor `classes`")));
  write_shard("large/shard.safetensors", 16);
  std::vector<std::string> command = {"train", "job.toml", "--out", "large_run"};
  for (const std::string& text : with(keys, {"data.train=large"}))
    command.insert(command.end(), {"--set", text});
  EXPECT_THAT(refusal(command), AllOf(HasSubstr("data.train: large/shard.safetensors"),
                                      HasSubstr("[8, 16, 16, 4], and the network needs [8, 8, 4]")));
}

}  // namespace
}  // namespace trireme
