// A model exported to and imported from Hugging Face's format by the built program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/core.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "runtime/checkpoint/float_data.h"
#include "runtime/checkpoint/safetensors_writer.h"
#include "tests/launcher/commands/cli_fixture.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

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
  /// All values. A step with rate 0 may change the sign of a zero, which still compares equal.
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
  /// A job that only names its folder, and makes a step that changes no parameter.
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
  // The run does not need its initial folder any more.
  std::filesystem::remove_all(scratch_ / "fp32");
  ASSERT_EQ(export_to("later", "fp32", "back-fp32").exit_code, 0);
  EXPECT_TRUE(numbers("later") == numbers("again-fp32"));
}

TEST_P(HfCli, TokensTemplateAndGenerationSettingsComeBack) {
  ASSERT_EQ(export_to("hf").exit_code, 0);
  nlohmann::json description = nlohmann::json::parse(config("hf"));
  description["eos_token_id"] = {5, 7};
  description["pad_token_id"] = 3;
  testing::write_file(scratch_ / "hf/config.json", description.dump());
  const std::string settings = "{\"eos_token_id\": [5, 7], \"temperature\": 0.6}\n";
  const std::string chat = "{% for m in messages %}{{ m.content }}\n{% endfor %}";
  testing::write_file(scratch_ / "hf/generation_config.json", settings);
  testing::write_file(scratch_ / "hf/chat_template.jinja", chat);
  write_job_of("hf");
  ASSERT_EQ(run(train_back("tuned")).exit_code, 0);
  std::filesystem::remove_all(scratch_ / "hf");
  // A run that starts from this run keeps them, too.
  write_job("next.toml", std::string(GetParam()) + "init_from = \"tuned\"\n");
  ASSERT_EQ(run({"train", "next.toml", "--out", "next"}).exit_code, 0);
  for (const std::string from : {"tuned", "next"}) {
    const std::string out = "out-" + from;
    ASSERT_EQ(export_to(out, "fp32", from).exit_code, 0);
    const nlohmann::json written = nlohmann::json::parse(config(out));
    EXPECT_EQ(written.at("eos_token_id"), nlohmann::json({5, 7}));
    EXPECT_EQ(written.at("pad_token_id"), 3);
    EXPECT_EQ(testing::read_file(scratch_ / out / "generation_config.json"), settings);
    EXPECT_EQ(testing::read_file(scratch_ / out / "chat_template.jinja"), chat);
  }
}

TEST_P(HfCli, EvalTakesTheFolder) {
  ASSERT_EQ(export_to("hf").exit_code, 0);
  const std::vector<std::string> settings = {
      "--json", "--set", "data.kind=synthetic", "--set", "train.micro_batch=1", "--threads", "1"};
  const auto loss_of = [&](const std::string& place) {
    std::vector<std::string> command = {"eval", place};
    command.insert(command.end(), settings.begin(), settings.end());
    const ProgramResult result = run(command);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return nlohmann::json::parse(result.out).at("loss").get<double>();
  };
  const double loss = loss_of("run");
  EXPECT_EQ(loss_of("hf"), loss);
  EXPECT_EQ(loss_of("hf:hf"), loss);
  EXPECT_THAT(refusal({"eval", "hf"}), HasSubstr("--data"));
  EXPECT_THAT(refusal({"eval", "hf", "--ema"}), HasSubstr("--ema: hf is a folder"));
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
  EXPECT_THAT(refusal(other), AllOf(HasSubstr("model.init_from: hf/config.json: "),
                                    HasSubstr("use the shape of the folder with model.from = \"hf:hf\"")));
  std::filesystem::remove(scratch_ / "hf/model.safetensors");
  EXPECT_THAT(refusal(train_back("other")),
              HasSubstr("model.init_from: hf has neither model.safetensors nor"));
}

INSTANTIATE_TEST_SUITE_P(Families, HfCli, ::testing::Values(kGpt, kLlama, kVit), [](const auto& param) {
  return std::string(param.param == kGpt ? "Gpt" : param.param == kVit ? "Vit" : "Llama");
});

TEST_F(Cli, ExportReplacesOnlyWhatItWrote) {
  testing::write_file(scratch_ / "job.toml", std::string("[model]\n") + kGpt + kRest);
  ASSERT_EQ(run({"train", "job.toml", "--out", "run"}).exit_code, 0);
  const std::string config = testing::read_file(scratch_ / "run/config.toml");
  const char* const others[] = {"run/config.toml", "link"};
  std::filesystem::create_symlink("nowhere", scratch_ / "link");
  for (const char* other : others) {
    EXPECT_THAT(refusal({"export", "run", "--out", other}),
                AllOf(HasSubstr(std::string("--out ") + other + " is there already"), HasSubstr("--force")));
  }
  EXPECT_EQ(testing::read_file(scratch_ / "run/config.toml"), config);
  // Files of a checkpoint are never replaced.
  const std::string checkpoint = "run/checkpoints/step-000001", model = checkpoint + "/model.safetensors";
  EXPECT_THAT(refusal({"export", "run", "--force", "--out", model}), HasSubstr("belongs to a checkpoint"));
  EXPECT_THAT(refusal({"export", checkpoint, "--format", "hf", "--force", "--out", checkpoint}),
              HasSubstr("--out run/checkpoints/step-000001 belongs to a checkpoint"));
  ASSERT_EQ(run({"export", "run", "--out", "new.safetensors"}).exit_code, 0);
  EXPECT_EQ(run({"export", "run", "--out", "new.safetensors"}).exit_code, 0);
  testing::write_file(scratch_ / "notes.txt", "mine");
  EXPECT_EQ(run({"export", "run", "--force", "--out", "notes.txt"}).exit_code, 0);
  EXPECT_EQ(testing::read_file(scratch_ / "notes.txt"), testing::read_file(scratch_ / "new.safetensors"));

  testing::write_file(scratch_ / "folder/notes.txt", "mine");
  testing::write_file(scratch_ / "folder/config.json", "mine");
  const std::vector<std::string> to_folder{"export", "run", "--format", "hf", "--out", "folder"};
  EXPECT_THAT(refusal(to_folder), AllOf(HasSubstr("--out folder is there already"), HasSubstr("--force")));
  EXPECT_EQ(testing::read_file(scratch_ / "folder/config.json"), "mine");
  auto forced = to_folder;
  forced.push_back("--force");
  ASSERT_EQ(run(forced).exit_code, 0);
  EXPECT_THAT(testing::read_file(scratch_ / "folder/config.json"), HasSubstr("GPT2LMHeadModel"));
  EXPECT_EQ(testing::read_file(scratch_ / "folder/notes.txt"), "mine");
  EXPECT_TRUE(std::filesystem::exists(scratch_ / "folder/model.safetensors"));
}

class ClassNamesCli : public Cli {
 protected:
  void SetUp() override {
    write_documents("data", "neg", "pos");
    ASSERT_EQ(
        run(train("first", "name = \"bert\"\nlayers = 1\nhidden = 16\nheads = 2\nseq_len = 32\n")).exit_code,
        0);
    ASSERT_EQ(run({"export", "first", "--format", "hf", "--out", "hf"}).exit_code, 0);
  }
  void write_documents(const std::string& data, const std::string& first, const std::string& second) {
    std::string lines;
    for (int i = 0; i < 12; ++i) lines += fmt::format("{}\tsample {}\n", i % 2 == 0 ? first : second, i);
    testing::write_file(scratch_ / (data + ".tsv"), lines);
    ASSERT_EQ(run({"data", "documents", data + ".tsv", "--out", data}).exit_code, 0);
  }
  /// Runs a step that changes no parameter.
  std::vector<std::string> train(const std::string& out, const std::string& model,
                                 const std::string& data = "data") {
    testing::write_file(
        scratch_ / (out + ".toml"),
        "[model]\ntask = \"classify\"\n" + model + "[data]\nkind = \"documents\"\ntrain = \"" + data +
            "\"\n[train]\nsteps = 1\nglobal_batch = 2\nmicro_batch = 1\n[parallel]\nthreads = 1\n"
            "[optimizer]\nname = \"sgd\"\nlr = 1e-40\nweight_decay = 0\n");
    return {"train", out + ".toml", "--out", out};
  }
  /// A copy of "hf" with the classes in reverse order.
  void write_swapped(const std::string& out) {
    std::string config = testing::read_file(scratch_ / "hf/config.json");
    auto json = nlohmann::json::parse(config);
    json["id2label"] = {{"0", "pos"}, {"1", "neg"}};
    json["label2id"] = {{"pos", 0}, {"neg", 1}};
    testing::write_file(scratch_ / out / "config.json", json.dump());
    const SafetensorsReader file(scratch_ / "hf/model.safetensors");
    SafetensorsWriter writer(scratch_ / out / "model.safetensors",
                             {file.tensors().begin(), file.tensors().end()}, {{"format", "pt"}});
    for (const SafetensorsTensor& tensor : file.tensors()) {
      const std::size_t half = tensor.data.size() / 2;
      const bool is_class_head = tensor.name.starts_with("classifier.");
      writer.append(tensor.data.subspan(is_class_head ? half : 0, is_class_head ? half : tensor.data.size()));
      if (is_class_head) writer.append(tensor.data.first(half));
    }
    writer.commit();
  }
};

TEST_F(ClassNamesCli, AHeadComesInTheOrderOfTheData) {
  EXPECT_THAT(testing::read_file(scratch_ / "hf/config.json"),
              AllOf(HasSubstr("\"0\": \"neg\",\n    \"1\": \"pos\""), HasSubstr("\"pos\": 1")));
  write_swapped("swapped");
  const ProgramResult result = run(train("second", "from = \"hf:swapped\"\ninit_from = \"swapped\"\n"));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("the rows of the class head are reordered as in data: 'neg', 'pos'; "
                                    "swapped has 'pos', 'neg'"));
  ASSERT_EQ(run({"export", "second", "--format", "hf", "--out", "again"}).exit_code, 0);
  EXPECT_EQ(testing::read_file(scratch_ / "again/config.json"),
            testing::read_file(scratch_ / "hf/config.json"));
  // A step at a rate of 1e-40 changes weights by less than the smallest normal number.
  constexpr float kStep = 1e-37f;
  const SafetensorsReader again(scratch_ / "again/model.safetensors"),
      first(scratch_ / "hf/model.safetensors");
  for (const SafetensorsTensor& tensor : first.tensors()) {
    std::vector<float> expected(tensor.num_elems), values(tensor.num_elems);
    first.copy_floats(tensor.name, 0, expected);
    again.copy_floats(tensor.name, 0, values);
    EXPECT_THAT(values, Pointwise(FloatNear(kStep), expected)) << tensor.name;
  }
}

TEST_F(ClassNamesCli, OtherClassesAreRefused) {
  write_documents("other", "bad", "good");
  ASSERT_EQ(run({"export", "first", "--out", "first.safetensors"}).exit_code, 0);
  const std::string shape = "name = \"bert\"\nlayers = 1\nhidden = 16\nheads = 2\nseq_len = 32\n";
  for (const std::string from :
       {"first", "hf", "first.safetensors", "first/checkpoints/step-000001/model.safetensors"}) {
    const std::string model = shape + "init_from = \"" + from + "\"\n";
    EXPECT_THAT(
        refusal(train("x", model, "other")),
        AllOf(HasSubstr("model.init_from: the classes of the weights and of the data differ"),
              HasSubstr("'neg', 'pos'"), HasSubstr("'bad', 'good'"), HasSubstr("model.new_head = true")))
        << from;
    EXPECT_EQ(run(train("y", model, "data")).exit_code, 0) << from;
    std::filesystem::remove_all(scratch_ / "y");
  }
  EXPECT_EQ(run(train("z", shape + "init_from = \"first\"\nnew_head = true\n", "other")).exit_code, 0);
}

// config.json counts three classes and does not name them; the documents have two.
TEST_F(ClassNamesCli, LabelsAreCountedByTheFolder) {
  auto json = nlohmann::json::parse(testing::read_file(scratch_ / "hf/config.json"));
  json.erase("id2label");
  json.erase("label2id");
  json["num_labels"] = 3;
  testing::write_file(scratch_ / "three/config.json", json.dump());
  const SafetensorsReader file(scratch_ / "hf/model.safetensors");
  std::vector<SafetensorsEntry> entries(file.tensors().begin(), file.tensors().end());
  for (SafetensorsEntry& entry : entries) {
    if (entry.name.starts_with("classifier.")) entry.shape[0] = 3;
  }
  SafetensorsWriter writer(scratch_ / "three/model.safetensors", entries);
  for (const SafetensorsTensor& tensor : file.tensors()) {
    writer.append(tensor.data);
    if (tensor.name.starts_with("classifier.")) writer.append(tensor.data.first(tensor.data.size() / 2));
  }
  writer.commit();
  const ProgramResult result = run(train("three-run", "from = \"hf:three\"\ninit_from = \"three\"\n"));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("the data names 2 of the 3 classes"));
  ASSERT_EQ(run({"export", "three-run", "--format", "hf", "--out", "out"}).exit_code, 0);
  EXPECT_THAT(testing::read_file(scratch_ / "out/config.json"),
              HasSubstr("\"0\": \"neg\",\n    \"1\": \"pos\",\n    \"2\": \"LABEL_2\""));
}

TEST_F(Cli, ModelsWithoutAFormInHuggingFacesFormatAreRefused) {
  testing::write_file(scratch_ / "job.toml", std::string("[model]\nname = \"resnet20\"\n") + kRest);
  ASSERT_EQ(run({"train", "job.toml", "--out", "run"}).exit_code, 0);
  EXPECT_THAT(refusal({"export", "run", "--format", "hf", "--out", "x"}),
              HasSubstr("a resnet20 has no form in Hugging Face's format here"));
}

}  // namespace
}  // namespace trireme
