// A model's way to a folder of Hugging Face's format and back, through the built program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <span>
#include <vector>

#include "runtime/checkpoint/float_data.h"
#include "tests/launcher/commands/cli_fixture.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const char* const kRest =
    "[data]\nkind = \"synthetic\"\n[train]\nsteps = 1\nglobal_batch = 2\nmicro_batch = 1\n"
    "[parallel]\nthreads = 1\n";
const char* const kGpt = "name = \"gpt\"\nlayers = 2\nhidden = 24\nheads = 3\nvocab = 40\nseq_len = 10\n";
const char* const kLlama =
    "name = \"llama\"\nlayers = 2\nhidden = 24\nheads = 6\nkv_heads = 2\nvocab = 40\nseq_len = 10\n"
    "rope_factor = 4\nrope_original_context = 5\n";

const char* const kVit =
    "name = \"vit\"\nlayers = 2\nhidden = 24\nheads = 6\npatch = 4\nimage_size = 8\nclasses = 3\n";

class HfCli : public Cli, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    write_job("job.toml", GetParam());
    ASSERT_EQ(run({"train", "job.toml", "--out", "run"}).exit_code, 0);
  }
  void write_job(const std::string& file, const std::string& model) {
    testing::write_file(scratch_ / file, "[model]\n" + model + kRest);
  }
  ProgramResult export_to(const std::string& out, const std::string& dtype = "fp32",
                          const std::string& from = "run") {
    return run({"export", from, "--format", "hf", "--dtype", dtype, "--out", out});
  }
  /// All numbers. A step of no size may change the sign of a zero, which compares equal.
  std::vector<float> numbers(const std::string& folder) {
    const SafetensorsReader file(scratch_ / folder / "model.safetensors");
    std::vector<float> all;
    for (const SafetensorsTensor& tensor : file.tensors()) {
      all.resize(all.size() + tensor.num_elems);
      copy_as_floats(tensor, 0, std::span(all).last(tensor.num_elems));
    }
    return all;
  }
  std::string config(const std::string& folder) {
    return testing::read_file(scratch_ / folder / "config.json");
  }
  /// A job that knows its folder alone, and takes a step that changes no parameter.
  void write_job_of(const std::string& folder) {
    write_job("back.toml", "from = \"hf:" + folder + "\"\ninit_from = \"" + folder + "\"\n");
  }
  std::vector<std::string> train_back(const std::string& out) {
    return {"train", "back.toml",
            "--out", out,
            "--set", "optimizer.lr=1e-40",
            "--set", "optimizer.name=sgd",
            "--set", "optimizer.weight_decay=0"};
  }
};

TEST_P(HfCli, EveryNumberComesBack) {
  for (const std::string dtype : {"fp32", "fp16", "bf16"}) {
    const ProgramResult exported = export_to(dtype, dtype);
    ASSERT_EQ(exported.exit_code, 0) << exported.err;
    EXPECT_THAT(exported.out, HasSubstr("tensors of run/checkpoints/step-000001"));
    write_job_of(dtype);
    const ProgramResult back = run(train_back("back-" + dtype));
    ASSERT_EQ(back.exit_code, 0) << back.err;
    EXPECT_THAT(back.out, HasSubstr("starting from " + dtype));
    ASSERT_EQ(export_to("again-" + dtype, dtype, "back-" + dtype).exit_code, 0);
    EXPECT_TRUE(numbers("again-" + dtype) == numbers(dtype)) << dtype;
    EXPECT_EQ(config("again-" + dtype), config(dtype));
  }
  // The run needs the folder that it started from no more.
  std::filesystem::remove_all(scratch_ / "fp32");
  ASSERT_EQ(export_to("later", "fp32", "back-fp32").exit_code, 0);
  EXPECT_TRUE(numbers("later") == numbers("again-fp32"));
}

TEST_P(HfCli, Refusals) {
  ASSERT_EQ(export_to("hf").exit_code, 0);
  EXPECT_THAT(refusal({"export", "run", "--format", "hf", "--out", "hf"}), HasSubstr("hf is there already"));
  EXPECT_THAT(refusal({"export", "run", "--format", "onnx", "--out", "x"}), HasSubstr("--format"));
  EXPECT_THAT(refusal({"export", "run", "--dtype", "fp16", "--out", "x"}),
              HasSubstr("--dtype fp16 is for --format hf"));
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "x"));
  write_job_of("hf");
  auto other = train_back("other");
  other.insert(other.end(), {"--set", "model.heads=12"});
  EXPECT_THAT(refusal(other), AllOf(HasSubstr("model.init_from: hf/config.json makes a model whose"),
                                    HasSubstr("model.from = \"hf:hf\" takes the shape from there")));
  std::filesystem::remove(scratch_ / "hf/model.safetensors");
  EXPECT_THAT(refusal(train_back("other")),
              HasSubstr("model.init_from: hf has neither model.safetensors nor"));
}

INSTANTIATE_TEST_SUITE_P(Families, HfCli, ::testing::Values(kGpt, kLlama, kVit), [](const auto& param) {
  return std::string(param.param == kGpt ? "Gpt" : param.param == kVit ? "Vit" : "Llama");
});

TEST_F(Cli, ModelsWithoutAFormInHuggingFacesFormatAreRefused) {
  testing::write_file(scratch_ / "job.toml", std::string("[model]\nname = \"resnet20\"\n") + kRest);
  ASSERT_EQ(run({"train", "job.toml", "--out", "run"}).exit_code, 0);
  EXPECT_THAT(
      refusal({"export", "run", "--format", "hf", "--out", "x"}),
      HasSubstr("a resnet20 has no form in Hugging Face's format here; GPTs, Llamas, BERTs, ViTs have"));
}

}  // namespace
}  // namespace trireme
