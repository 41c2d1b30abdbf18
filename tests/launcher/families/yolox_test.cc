// Detectors as jobs: keys, refusals of bad data, training, `trireme eval` and `trireme detect`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "launcher/data/detection_data.h"
#include "launcher/job/build.h"
#include "launcher/keys/job_file.h"
#include "runtime/data/image_decode.h"
#include "tests/launcher/commands/cli_fixture.h"
#include "tests/launcher/config/error_matchers.h"
#include "tests/support/picture_files.h"

namespace trireme {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kPictureSide = 64;

/// Grey pictures with one rectangle each: a white "light" or a black "dark" one. Category ids have holes.
json coco_of(const testing::TemporaryFolder& folder, const std::string& split, int count, int first) {
  json coco = {{"images", json::array()},
               {"annotations", json::array()},
               {"categories", {{{"id", 3}, {"name", "light"}}, {{"id", 70}, {"name", "dark"}}}}};
  for (int i = first; i < first + count; ++i) {
    const int x = 4 + i % 7 * 3, y = 2 + i % 5 * 4, w = 20 + i % 3 * 6, h = 16 + i % 4 * 7;
    std::vector<std::uint8_t> pixels(kPictureSide * kPictureSide * 3, static_cast<std::uint8_t>(110 + i));
    for (int row = y; row < y + h; ++row) {
      for (int column = x * 3; column < (x + w) * 3; ++column)
        pixels[static_cast<std::size_t>(row * kPictureSide * 3 + column)] = i % 2 == 0 ? 255 : 0;
    }
    const std::string name = std::to_string(i) + ".png";
    testing::write_file(folder / split / name,
                        testing::encode_png({.width = kPictureSide, .height = kPictureSide}, pixels));
    coco["images"].push_back(
        {{"id", i + 10}, {"file_name", name}, {"width", kPictureSide}, {"height", kPictureSide}});
    coco["annotations"].push_back({{"id", i + 1},
                                   {"image_id", i + 10},
                                   {"category_id", i % 2 == 0 ? 3 : 70},
                                   {"bbox", {x, y, w, h}},
                                   {"area", w * h},
                                   {"iscrowd", 0}});
  }
  return coco;
}

class DetectionCli : public Cli {
 protected:
  void SetUp() override {
    train_set_ = coco_of(scratch_, "train", 16, 0);
    write_annotations("train", train_set_);
    write_annotations("eval", coco_of(scratch_, "eval", 5, 16));
    testing::write_file(scratch_ / "job.toml",
                        "[model]\nname = \"yolox\"\nsize = \"nano\"\n"
                        "[data]\nkind = \"detection\"\nimage_size = 64\nmosaic = 0.5\nmixup = 0.5\n"
                        "mosaic_off_steps = 2\nmax_boxes = 8\nhsv = [0.1, 0.1, 0.1]\nscale = [0.5, 1.5]\n"
                        "train = \"train\"\ntrain_annotations = \"train.json\"\n"
                        "eval = \"eval\"\neval_annotations = \"eval.json\"\n"
                        "[train]\nsteps = 4\nglobal_batch = 8\nmicro_batch = 2\nema = 0.9\nema_tau = 4\n"
                        "[optimizer]\nname = \"sgd\"\nlr = 0.01\nnesterov = true\n[parallel]\nthreads = 1\n");
  }
  void write_annotations(const std::string& split, const json& coco) {
    testing::write_file(scratch_ / (split + ".json"), coco.dump());
  }
  std::vector<std::string> train(const std::string& out, std::vector<std::string> overrides = {}) {
    std::vector<std::string> command = {"train", "job.toml", "--out", out};
    for (std::string& text : overrides) command.insert(command.end(), {"--set", std::move(text)});
    return command;
  }
  json summary(const std::string& out) {
    return json::parse(testing::read_file(scratch_ / out / "summary.json"));
  }
  /// The refusal of a training on changed annotations.
  std::string refusal_of(const std::function<void(json&)>& change) {
    json changed = train_set_;
    change(changed);
    write_annotations("train", changed);
    return refusal(train("refused"));
  }

  json train_set_;
};

TEST_F(DetectionCli, TrainsEvaluatesAndDetects) {
  const ProgramResult trained = run(train("run"));
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_THAT(trained.out, HasSubstr("samples of 64 x 64 pixels"));
  EXPECT_THAT(trained.out, HasSubstr("AP50"));
  const json figures = summary("run");
  EXPECT_TRUE(figures["eval_ap"].is_number());
  EXPECT_TRUE(figures["eval_top1"].is_null());
  EXPECT_THAT(testing::read_file(scratch_ / "run/config.toml"), HasSubstr("classes = 2"));

  const ProgramResult table = run({"eval", "run", "--ema", "--predictions", "found.json"});
  ASSERT_EQ(table.exit_code, 0) << table.err;
  EXPECT_THAT(table.out, AllOf(HasSubstr("0.50:0.95"), HasSubstr("AP75"), HasSubstr("dark"),
                               HasSubstr("over 5 samples")));
  for (const json& one : json::parse(testing::read_file(scratch_ / "found.json"))) {
    EXPECT_GE(one["image_id"], 26);
    EXPECT_TRUE(one["category_id"] == 3 || one["category_id"] == 70);
    EXPECT_EQ(one["bbox"].size(), 4u);
    EXPECT_GT(one["score"], 0);
  }
  const json report = json::parse(run({"eval", "run", "--ema", "--json"}).out);
  EXPECT_EQ(report["loss"], figures["eval_loss"]);
  EXPECT_EQ(report["ap"], figures["eval_ap"]);
  EXPECT_EQ(report["class_ap"][1]["name"], "dark");
  EXPECT_TRUE(report["ap_large"].is_null()) << "no object is that large";
  EXPECT_THAT(refusal({"eval", "run", "--confusion", "c.svg"}), HasSubstr("does not classify"));
  EXPECT_THAT(refusal({"eval", "run", "--on-bad-image", "skip"}),
              HasSubstr("--on-bad-image skip: it has no effect"));
  EXPECT_THAT(refusal({"eval", "run", "--data", "train"}), HasSubstr("classes.txt is missing"));
  const ProgramResult other =
      run({"eval", "run", "--data", "train", "--set", "data.eval_annotations=train.json"});
  EXPECT_THAT(other.out, HasSubstr("over 16 samples")) << other.err;

  const ProgramResult detected =
      run({"detect", "run", "eval", "train/3.png", "--ema", "--out", "found", "--threshold", "0.0"});
  ASSERT_EQ(detected.exit_code, 0) << detected.err;
  const json found = json::parse(testing::read_file(scratch_ / "found/detections.json"));
  EXPECT_EQ(found["images"].size(), 6u);
  EXPECT_EQ(found["categories"][1]["name"], "dark");
  EXPECT_GT(found["annotations"].size(), 0u) << "a threshold of 0 keeps every object";
  const std::string png = testing::read_file(scratch_ / "found/16.png");
  EXPECT_EQ(read_image_size({.bytes = std::as_bytes(std::span(png)), .name = "16.png", .max_pixels = 1 << 20})
                .width,
            kPictureSide);
  EXPECT_NE(png, testing::read_file(scratch_ / "eval/16.png"));
  EXPECT_THAT(refusal({"detect", "run", "eval", "--out", "found"}), HasSubstr("--force"));
  EXPECT_THAT(refusal({"detect", "run", "eval/16.png", "--out", "eval", "--force"}),
              HasSubstr("would replace the picture"));
  EXPECT_THAT(refusal({"detect", "run", "nothing.png", "--out", "other"}),
              HasSubstr("nothing.png is not a picture or a folder of pictures"));
  testing::write_file(scratch_ / "cut.png", png.substr(0, png.size() / 2));
  const ProgramResult cut = run({"detect", "run", "eval/16.png", "cut.png", "--out", "other"});
  EXPECT_EQ(cut.exit_code, 2);
  EXPECT_THAT(cut.err, HasSubstr("cut.png"));
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "other")) << "all files or none";
}

TEST_F(DetectionCli, TheStateDoesNotDependOnWorkersAndResumesWithinAPhase) {
  std::string first;
  for (const std::string workers : {"0", "3"}) {
    const ProgramResult result = run(train("workers" + workers, {"data.workers=" + workers}));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const std::string hash = summary("workers" + workers)["state_hash"];
    if (first.empty()) first = hash;
    EXPECT_EQ(hash, first) << workers << " workers";
  }
  // Stops before the last mixed step, and resumes over the end of the mixed phase.
  ASSERT_EQ(run(train("resumed", {"checkpoint.every=1", "train.max_minutes=0.0000001"})).exit_code, 75);
  ASSERT_EQ(run(train("resumed", {"checkpoint.every=1"})).exit_code, 0);
  EXPECT_GT(summary("resumed")["first_step"], 1);
  EXPECT_EQ(summary("resumed")["state_hash"], first);
  const ProgramResult sizes =
      run(train("sizes", {"data.multi_scale=[32, 64, 96]", "data.multi_scale_steps=1"}));
  ASSERT_EQ(sizes.exit_code, 0) << sizes.err;
  EXPECT_NE(summary("sizes")["state_hash"], first);
}

TEST_F(DetectionCli, RefusesBrokenAnnotations) {
  EXPECT_THAT(refusal_of([](json& coco) { coco["images"][2]["file_name"] = "lost.png"; }),
              AllOf(HasSubstr("data.train_annotations"), HasSubstr("lost.png"), HasSubstr("id 12")));
  EXPECT_THAT(refusal_of([](json& coco) { coco["annotations"][1]["bbox"][2] = -3; }),
              AllOf(HasSubstr("train.json"), HasSubstr("negative")));
  EXPECT_THAT(refusal_of([](json& coco) { coco["annotations"][1]["bbox"][2] = nullptr; }),
              AllOf(HasSubstr("train.json"), HasSubstr("bbox")));
  EXPECT_THAT(refusal_of([](json& coco) { coco["annotations"][0]["category_id"] = 4; }),
              HasSubstr("category_id 4"));
  EXPECT_THAT(refusal_of([](json& coco) { coco["images"] = json::array(); }), HasSubstr("has no pictures"));
  EXPECT_THAT(refusal_of([](json& coco) {
                coco["categories"].push_back({{"id", 9}, {"name", "new"}});
              }),
              AllOf(HasSubstr("data.eval_annotations"), HasSubstr("2 classes"), HasSubstr("3")));
  EXPECT_THAT(refusal_of([](json& coco) { coco["images"][3]["width"] = 63; }),
              AllOf(HasSubstr("data.train_annotations"), HasSubstr("3.png (id 13) has 64 x 64"),
                    HasSubstr("for 63 x 64")));
  EXPECT_THAT(refusal_of([](json& coco) { coco.erase("annotations"); }),
              AllOf(HasSubstr("data.train_annotations"), HasSubstr("nothing to learn")));
  write_annotations("train", train_set_);
  EXPECT_THAT(refusal(train("refused", {"data.eval_annotations=\"\""})),
              AllOf(HasSubstr("data.eval"), HasSubstr("classes.txt"), HasSubstr("data.eval_annotations")));
  EXPECT_THAT(refusal(train("refused", {"data.train=nowhere"})), HasSubstr("data.train: nowhere is not"));
  EXPECT_THAT(refusal(train("refused", {"data.train_annotations=nowhere.json"})), HasSubstr("nowhere.json"));
  EXPECT_THAT(refusal(train("refused", {"data.eval=train", "data.eval_annotations=train.json"})),
              HasSubstr("data.allow_eval_in_train"));
}

TEST_F(DetectionCli, WarnsOfBoxesAndMosaicsThatAreLeftOut) {
  json more = train_set_;
  more["annotations"].push_back(more["annotations"][0]);
  more["annotations"].back()["id"] = 99;
  write_annotations("train", more);
  const ProgramResult result =
      run(train("run", {"data.max_boxes=1", "train.steps=1", "data.mosaic_off_steps=1"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("data.max_boxes = 1: 1 picture(s) have more objects, up to 2"));
  EXPECT_THAT(result.err, HasSubstr("data.mosaic_off_steps = 1"));
}

TEST_F(DetectionCli, ComparesClassesWithTheCheckpoint) {
  ASSERT_EQ(run(train("base", {"train.steps=2", "data.mosaic_off_steps=0"})).exit_code, 0);
  json other = train_set_;
  other["categories"].push_back({{"id", 99}, {"name", "grey"}});
  write_annotations("train", other);
  json eval = json::parse(testing::read_file(scratch_ / "eval.json"));
  eval["categories"] = other["categories"];
  write_annotations("eval", eval);
  EXPECT_THAT(refusal({"eval", "base"}), AllOf(HasSubstr("data.eval_annotations"), HasSubstr("3 classes"),
                                               HasSubstr("model.classes = 2")));
  EXPECT_THAT(refusal(train("fine", {"model.init_from=base"})),
              AllOf(HasSubstr("'grey' in train.json"), HasSubstr("model.new_head = true")));
  const ProgramResult fine = run(train("fine", {"model.init_from=base", "model.new_head=true"}));
  EXPECT_EQ(fine.exit_code, 0) << fine.err;
}

TEST(YoloxFamily, RefusesKeysThatDoNotFit) {
  const auto job = [](const std::vector<std::string>& overrides) {
    return resolve(parse_config("[model]\nname = \"yolox\"\nsize = \"s\"\n[data]\nkind = \"synthetic\"\n",
                                "job.toml", overrides));
  };
  EXPECT_EQ(job({}).data.image_size, 640);
  EXPECT_EQ(job({"model.size=tiny"}).data.image_size, 416);
  EXPECT_EQ(job({}).model.classes, 80);
  const auto refused = [&](const std::vector<std::string>& overrides) {
    return error_message([&] { job(overrides); });
  };
  EXPECT_THAT(refused({"data.image_size=100"}), AllOf(HasSubstr("data.image_size = 100"), HasSubstr("128")));
  EXPECT_THAT(refused({"data.multi_scale=[64, 65]"}), HasSubstr("data.multi_scale = 65"));
  EXPECT_THAT(refused({"data.scale=[2.0, 1.0]"}), HasSubstr("the least comes first"));
  EXPECT_THAT(refused({"data.crop=center"}), HasSubstr("data.crop"));
  EXPECT_THAT(refused({"train.ema_tau=9"}), HasSubstr("train.ema = 0 averages nothing"));
  EXPECT_THAT(refused({"model.size=\"\""}), HasSubstr("give model.size"));
  EXPECT_THAT(refused({"model.classes=2044"}), AllOf(HasSubstr("model.classes = 2044"), HasSubstr("2043")));
  const SampleSpec spec = kDetectionData.sample_spec(job({"data.image_size=96"}));
  EXPECT_EQ(spec.input, (Shape{96, 96, 3}));
  EXPECT_EQ(spec.target, (Shape{120, 5}));
}

}  // namespace
}  // namespace trireme
