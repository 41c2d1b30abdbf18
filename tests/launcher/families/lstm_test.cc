// LSTM language models as jobs: keys, refusals, weights of PyTorch, export, and text.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <numeric>

#include "launcher/job/build.h"
#include "launcher/keys/job_file.h"
#include "launcher/state/initial_weights.h"
#include "parallel/layout/parameter_rules.h"
#include "runtime/checkpoint/safetensors_reader.h"
#include "runtime/checkpoint/safetensors_writer.h"
#include "tests/launcher/commands/cli_fixture.h"
#include "tests/launcher/config/error_matchers.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kTiny =
    "[model]\nname = \"lstm\"\nlayers = 2\nhidden = 6\nvocab = 40\nseq_len = 8\n"
    "[data]\nkind = \"synthetic\"\n[train]\nsteps = 2\nglobal_batch = 4\nmicro_batch = 2\n"
    "[optimizer]\nlr = 1e-30\nweight_decay = 0.0\nschedule = \"constant\"\n[parallel]\nthreads = 1\n";

JobConfig lstm_job(const std::vector<std::string>& overrides = {}) {
  return resolve(parse_config(kTiny, "job.toml", overrides));
}

std::string lstm_refusal(const std::vector<std::string>& overrides) {
  return error_message([&] { lstm_job(overrides); });
}

TEST(LstmFamily, FillsInTheShape) {
  const auto model = [](const std::vector<std::string>& overrides) { return lstm_job(overrides).model; };
  EXPECT_EQ(model({}).embedding_size, 6);
  EXPECT_EQ(model({"model.embedding_size=3"}).embedding_size, 3);
  EXPECT_FALSE(*model({}).tied);
  JobConfig sized;
  sized.model = {.name = "lstm", .size = "ptb-large"};
  sized.data.kind = DataKind::kSynthetic;
  const ModelSection large = resolve(sized).model;
  EXPECT_EQ(large.hidden, 1500);
  EXPECT_EQ(large.embedding_size, 1500);
  EXPECT_EQ(large.vocab, 10000);
  EXPECT_EQ(large.seq_len, 35);
  sized.model.hidden = 200;
  EXPECT_EQ(resolve(sized).model.embedding_size, 200);
}

TEST(LstmFamily, WhatCannotBeIsRefused) {
  EXPECT_THAT(lstm_refusal({"model.hidden=0"}), HasSubstr("give model.size, or all of model.layers = 2"));
  EXPECT_THAT(lstm_refusal({"model.tied=true", "model.embedding_size=5"}),
              HasSubstr("model.tied = true needs an embedding as wide as the layers"));
  EXPECT_THAT(lstm_refusal({"parallel.tensor=2"}),
              AllOf(HasSubstr("parallel.tensor = 2: a lstm cannot be cut into tensor chunks"),
                    HasSubstr("each token needs the whole state of the token before"),
                    HasSubstr("take data ranks, ZeRO or stages")));
  EXPECT_THAT(lstm_refusal({"parallel.sequence=true"}), HasSubstr("needs parallel.tensor = 2 or more"));
  EXPECT_THAT(lstm_refusal({"model.heads=2"}), HasSubstr("model.heads"));
  EXPECT_THAT(lstm_refusal({"model.tensor_chunks=2"}), HasSubstr("model.tensor_chunks"));
}

TEST(LstmFamily, AdaptersAreOfTheInputProduct) {
  const auto blocks = build_blocks(lstm_job({"train.lora={targets = [\"*\"], rank = 2}"}).model);
  std::vector<std::string> adapters;
  for (const std::string& name : parameter_names(*blocks)) {
    if (is_adapter_name(name)) adapters.push_back(name);
  }
  EXPECT_THAT(adapters, ElementsAre("rnn.weight_ih_l0.lora_A.weight", "rnn.weight_ih_l0.lora_B.weight",
                                    "rnn.weight_ih_l1.lora_A.weight", "rnn.weight_ih_l1.lora_B.weight"));
  EXPECT_THAT(lstm_refusal({"train.lora={targets = [\"weight_hh_l0\"], rank = 2}"}),
              HasSubstr("\"weight_hh_l0\" names none of the model's 2 inner linear layers"));
}

/// Tensors of a file, by name: their shapes.
using Shapes = std::map<std::string, std::vector<std::int64_t>>;

/// state_dict() of a PyTorch model with `gates` rows for each of `units`.
Shapes torch_shapes(std::int64_t layers, std::int64_t units, std::int64_t gates = 4) {
  Shapes shapes{{"encoder.weight", {40, 6}}, {"decoder.weight", {40, units}}, {"decoder.bias", {40}}};
  for (std::int64_t i = 0; i < layers; ++i) {
    shapes[fmt::format("rnn.weight_ih_l{}", i)] = {gates * units, i == 0 ? 6 : units};
    shapes[fmt::format("rnn.weight_hh_l{}", i)] = {gates * units, units};
    shapes[fmt::format("rnn.bias_ih_l{}", i)] = {gates * units};
    shapes[fmt::format("rnn.bias_hh_l{}", i)] = {gates * units};
  }
  return shapes;
}

/// The values are 1 / 1024, 2 / 1024 ..., in the order of the names.
void write_torch_file(const std::filesystem::path& path, const Shapes& shapes) {
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, shape] : shapes) entries.push_back({name, "F32", shape});
  SafetensorsWriter writer(path, entries);
  float last = 0;
  for (const SafetensorsEntry& entry : entries) {
    const std::int64_t count =
        std::accumulate(entry.shape.begin(), entry.shape.end(), std::int64_t{1}, std::multiplies<>());
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = last += 1.0f / 1024;
    writer.append(values);
  }
  writer.commit();
}

std::vector<float> values_of(const SafetensorsReader& file, const std::string& name) {
  std::vector<float> values(file.tensor(name).num_elems);
  file.copy_floats(name, 0, values);
  return values;
}

class LstmWeights : public Cli {
 protected:
  std::string refused_weights(const Shapes& shapes, const std::string& more = "model.layers=2") {
    testing::write_file(scratch_ / "job.toml", kTiny);
    write_torch_file(scratch_ / "torch.safetensors", shapes);
    return refusal(
        {"train", "job.toml", "--out", "out", "--set", "model.init_from=torch.safetensors", "--set", more});
  }
};

TEST_F(LstmWeights, OtherModelsOfPyTorchAreRefusedByName) {
  EXPECT_THAT(refused_weights(torch_shapes(2, 6, 3)),
              AllOf(HasSubstr("model.init_from: torch.safetensors: tensor 'rnn.weight_hh_l0' is [18, 6]"),
                    HasSubstr("an LSTM has 4 gates"), HasSubstr("nn.GRU has 3")));
  EXPECT_THAT(refused_weights(torch_shapes(2, 9)), HasSubstr("set model.hidden = 9"));
  EXPECT_THAT(refused_weights(torch_shapes(3, 6)),
              AllOf(HasSubstr("3 LSTM layers (num_layers), but model.layers = 2"),
                    HasSubstr("set model.layers = 3")));
  EXPECT_THAT(refused_weights(torch_shapes(1, 6)), HasSubstr("set model.layers = 1"));
  Shapes both_directions = torch_shapes(2, 6);
  both_directions["rnn.weight_ih_l0_reverse"] = {24, 6};
  EXPECT_THAT(refused_weights(both_directions),
              AllOf(HasSubstr("tensor 'rnn.weight_ih_l0_reverse' is of a bidirectional LSTM"),
                    HasSubstr("bidirectional=False")));
  Shapes projected = torch_shapes(2, 6);
  projected["rnn.weight_hr_l0"] = {3, 6};
  projected["rnn.weight_hh_l0"] = {24, 3};
  EXPECT_THAT(refused_weights(projected), HasSubstr("proj_size"));
  EXPECT_THAT(refused_weights(torch_shapes(2, 6), "model.tied=true"),
              HasSubstr("tensor 'decoder.weight' is a separate head, but model.tied = true"));
  Shapes tied = torch_shapes(2, 6);
  tied.erase("decoder.weight");
  EXPECT_THAT(refused_weights(tied), HasSubstr("set model.tied = true"));
  Shapes without_bias = torch_shapes(2, 6);
  without_bias.erase("rnn.bias_hh_l1");
  EXPECT_THAT(refused_weights(without_bias), HasSubstr("has no tensor 'rnn.bias_hh_l1'"));
}

// Files have PyTorch's names in both directions, and the bits are kept.
TEST_F(LstmWeights, AFileOfPyTorchComesBack) {
  testing::write_file(scratch_ / "job.toml", kTiny);
  write_torch_file(scratch_ / "torch.safetensors", torch_shapes(2, 6));
  const ProgramResult trained =
      run({"train", "job.toml", "--out", "out", "--set", "model.init_from=torch.safetensors"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const ProgramResult exported = run({"export", "out", "--out", "ours.safetensors"});
  ASSERT_EQ(exported.exit_code, 0) << exported.err;
  const SafetensorsReader theirs(scratch_ / "torch.safetensors"), ours(scratch_ / "ours.safetensors");
  EXPECT_EQ(ours.tensors().size(), theirs.tensors().size());
  for (const SafetensorsTensor& tensor : theirs.tensors()) {
    EXPECT_EQ(ours.tensor(tensor.name).shape, tensor.shape) << tensor.name;
    EXPECT_EQ(values_of(ours, tensor.name), values_of(theirs, tensor.name)) << tensor.name;
  }
}

TEST_F(LstmWeights, AdaptersAreMergedIntoTheInputProduct) {
  testing::write_file(scratch_ / "job.toml", kTiny);
  write_torch_file(scratch_ / "torch.safetensors", torch_shapes(2, 6));
  const ProgramResult trained =
      run({"train", "job.toml", "--out", "out", "--set", "model.init_from=torch.safetensors", "--set",
           "train.lora={targets = [\"weight_ih_l1\"], rank = 2}", "--set", "optimizer.lr=0.1"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const ProgramResult exported = run({"export", "out", "--out", "ours.safetensors"});
  ASSERT_EQ(exported.exit_code, 0) << exported.err;
  const SafetensorsReader theirs(scratch_ / "torch.safetensors"), ours(scratch_ / "ours.safetensors");
  EXPECT_EQ(ours.tensors().size(), theirs.tensors().size());
  for (const SafetensorsTensor& tensor : theirs.tensors()) {
    const bool is_adapted = tensor.name == "rnn.weight_ih_l1";
    EXPECT_EQ(values_of(ours, tensor.name) != values_of(theirs, tensor.name), is_adapted) << tensor.name;
  }
}

// A text may be longer than the samples of the training, with and without the state kept between tokens.
TEST_F(LstmWeights, TextsHaveNoMaximumLength) {
  testing::write_file(scratch_ / "text.txt", std::string(600, 'a') + std::string(600, 'b'));
  testing::write_file(scratch_ / "job.toml", kTiny);
  ASSERT_EQ(run({"data", "text", "text.txt", "--out", "data"}).exit_code, 0);
  const ProgramResult trained = run({"train", "job.toml", "--out", "out", "--set", "data.kind=tokens",
                                     "--set", "data.train=data", "--set", "model.vocab=256"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const std::vector<std::string> arguments{"sample",   "out", "--prompt", "abba",
                                           "--tokens", "40",  "--seed",   "3"};
  std::vector<std::string> plain = arguments;
  plain.emplace_back("--no-cache");
  const ProgramResult kept = run(arguments), recomputed = run(plain);
  ASSERT_EQ(kept.exit_code, 0) << kept.err;
  EXPECT_EQ(kept.out, recomputed.out);
}

}  // namespace
}  // namespace trireme
