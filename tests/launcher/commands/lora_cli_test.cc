// Adapters through the built program: trained from a base, resumed, merged, and exported to PEFT.
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "launcher/families/hf_exchange.h"
#include "launcher/job/build.h"
#include "launcher/state/initial_weights.h"
#include "launcher/state/run_checkpoint.h"
#include "parallel/comm/local.h"
#include "parallel/run/checkpoint_state.h"
#include "runtime/base/nf4.h"
#include "runtime/base/rng.h"
#include "runtime/checkpoint/float_data.h"
#include "tests/launcher/commands/cli_fixture.h"

namespace trireme {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

struct Family {
  const char* name;
  const char* model;
  std::vector<const char*> targets;
  std::size_t num_layers;  // in transformers' naming, with adapters
};

const Family kFamilies[] = {
    {"Gpt", "name = \"gpt\"\nlayers = 2\nhidden = 24\nheads = 3\nvocab = 40\nseq_len = 10\n", {"*"}, 8},
    {"Llama",
     "name = \"llama\"\nlayers = 2\nhidden = 24\nheads = 6\nkv_heads = 2\nvocab = 40\nseq_len = 10\n",
     {"attention.qkv", "mlp.*"},
     12},
    {"LlamaInChunks",
     "name = \"llama\"\nlayers = 2\nhidden = 24\nheads = 6\nkv_heads = 2\nvocab = 40\nseq_len = 10\n"
     "tensor_chunks = 2\n",
     {"all-linear"},
     14},
    {"Bert",
     "name = \"bert\"\nlayers = 2\nhidden = 24\nheads = 3\nvocab = 40\nseq_len = 10\n",
     {"attention.qkv", "mlp.up"},
     8},
    {"Vit",
     "name = \"vit\"\nlayers = 2\nhidden = 24\nheads = 6\npatch = 4\nimage_size = 8\nclasses = 3\n",
     {"in_proj", "mlp.0", "mlp.3"},
     10}};

const char* const kRest =
    "[data]\nkind = \"synthetic\"\n[train]\nsteps = 4\nglobal_batch = 4\nmicro_batch = 2\n"
    "[optimizer]\nlr = 0.02\nschedule = \"constant\"\n[parallel]\nthreads = 1\n";
constexpr int kRank = 3;
constexpr double kAlpha = 5.0;

/// The module name in PEFT's files for a ViT layer name in transformers' files.
std::string module_of(std::string layer) {
  const std::pair<const char*, const char*> kRenamed[] = {{"vit.encoder.layer", "vit.layers"},
                                                          {"attention.attention.query", "attention.q_proj"},
                                                          {"attention.attention.key", "attention.k_proj"},
                                                          {"attention.attention.value", "attention.v_proj"},
                                                          {"intermediate.dense", "mlp.fc1"},
                                                          {"1.output.dense", "1.mlp.fc2"},
                                                          {"0.output.dense", "0.mlp.fc2"}};
  if (!layer.starts_with("vit.")) return layer;
  for (const auto& [file, module] : kRenamed) {
    const std::size_t at = layer.find(file);
    if (at != std::string::npos) layer.replace(at, std::strlen(file), module);
  }
  return layer;
}

/// A tensor in fp32.
struct Values {
  std::vector<std::int64_t> shape;
  std::vector<float> data;
};

std::map<std::string, Values> read_file(const std::filesystem::path& path) {
  const SafetensorsReader file(path);
  std::map<std::string, Values> all;
  for (const SafetensorsTensor& tensor : file.tensors()) {
    Values values{tensor.shape, std::vector<float>(tensor.num_elems)};
    copy_as_floats(tensor, 0, values.data);
    all[tensor.name] = std::move(values);
  }
  return all;
}

HostBatch inputs_of(const ModelSection& model) {
  HostBatch batch;
  const auto draw = [](std::uint32_t i) { return philox4x32({i, 0, 0, 0}, {1, 2})[0]; };
  if (model.name == "vit") {
    batch.input_shape = {3, model.image_size, model.image_size, 3};
    batch.input_dtype = DType::kFloat32;
  } else {
    batch.input_shape = {3, model.seq_len};
    batch.input_dtype = DType::kInt32;
  }
  const std::int64_t count = batch.input_shape.num_elems();
  batch.inputs.resize(static_cast<std::size_t>(4 * count));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t word = draw(static_cast<std::uint32_t>(i));
    const auto token =
        static_cast<std::int32_t>(word % static_cast<std::uint32_t>(std::max<std::int64_t>(1, model.vocab)));
    const float pixel = static_cast<float>(word % 2001) / 1000.0f - 1.0f;
    std::byte* place = batch.inputs.data() + 4 * i;
    model.name == "vit" ? std::memcpy(place, &pixel, 4) : std::memcpy(place, &token, 4);
  }
  return batch;
}

Engine engine_of(const JobConfig& job) {
  return Engine(build_blocks(job.model), LocalWorld(1).communicator(0),
                {.threads = 1, .optimizer = {.kind = OptimizerConfig::Kind::kSgd}});
}

std::vector<float> logits_of_run(const std::filesystem::path& run) {
  const Checkpoint checkpoint = open_checkpoint_or_run(run);
  const JobConfig job = read_run_state(checkpoint).config;
  Engine engine = engine_of(job);
  load_state(engine, checkpoint.folder, StateParts::kModel);
  return engine.context().to_host(engine.infer(inputs_of(job.model)));
}

std::vector<float> logits_of_folder(const std::filesystem::path& folder) {
  JobConfig job;
  job.model = model_of_hf_folder(folder);
  job.model.init_from = folder.string();
  job.data.kind = DataKind::kSynthetic;
  job = resolve(job);
  Engine engine = engine_of(job);
  load_model(engine, *open_initial_weights(job.model).source);
  return engine.context().to_host(engine.infer(inputs_of(job.model)));
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0, size = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(a[i]) - b[i]));
    size = std::max(size, std::abs(static_cast<double>(a[i])));
  }
  return largest / size;
}

class LoraCli : public Cli, public ::testing::WithParamInterface<Family> {
 protected:
  void SetUp() override {
    testing::write_file(scratch_ / "base.toml", std::string("[model]\n") + GetParam().model + kRest);
    std::string targets;
    for (const char* target : GetParam().targets)
      targets += fmt::format("{}\"{}\"", targets.empty() ? "" : ", ", target);
    testing::write_file(
        scratch_ / "lora.toml",
        fmt::format(
            "[model]\ninit_from = \"base\"\n{}{}[train.lora]\nrank = {}\nalpha = {}\ntargets = [{}]\n",
            GetParam().model, kRest, kRank, kAlpha, targets));
    expect_done({"train", "base.toml", "--out", "base"});
  }
  ProgramResult expect_done(std::vector<std::string> arguments) {
    const std::string what = fmt::format("{}", fmt::join(arguments, " "));
    ProgramResult result = run(std::move(arguments));
    EXPECT_EQ(result.exit_code, 0) << what << ": " << result.err;
    return result;
  }
  std::string hash_of(const std::string& out, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments{"train", "lora.toml", "--out", out};
    for (const std::string& key : more) arguments.insert(arguments.end(), {"--set", key});
    expect_done(std::move(arguments));
    return json::parse(testing::read_file(scratch_ / out / "summary.json")).at("state_hash");
  }
  std::string model_file(const std::string& run) {
    return (open_checkpoint_or_run(scratch_ / run).folder / kModelFile).string();
  }
};

TEST_P(LoraCli, TrainsGoesOnAndMerges) {
  const std::string hash = hash_of("run");
  EXPECT_EQ(hash_of("recompute", {"parallel.recompute_every=1", "train.micro_batch=2"}), hash);
  EXPECT_EQ(hash_of("selective", {"parallel.recompute=selective"}), hash);
  hash_of("halves", {"train.steps=2"});
  EXPECT_EQ(hash_of("halves"), hash);

  const auto before = read_file(model_file("base")), after = read_file(model_file("run"));
  for (const auto& [name, values] : after) {
    if (!is_adapter_name(name)) {
      EXPECT_EQ(values.data, before.at(name).data) << name;
    } else if (name.ends_with(kAdapterB)) {
      EXPECT_NE(values.data, std::vector<float>(values.data.size())) << name;
    }
  }
  EXPECT_LT(before.size(), after.size());

  expect_done({"export", "run", "--format", "hf", "--out", "merged"});
  const std::vector<float> adapted = logits_of_run(scratch_ / "run");
  EXPECT_LT(largest_difference(adapted, logits_of_folder(scratch_ / "merged")), 1e-5);
  EXPECT_GT(largest_difference(adapted, logits_of_run(scratch_ / "base")), 1e-2);

  // The plain file has the names of a model without adapters, and such a model starts from it.
  expect_done({"export", "run", "--out", "merged.safetensors"});
  EXPECT_EQ(read_file(scratch_ / "merged.safetensors").size(), before.size());
  expect_done({"train", "base.toml", "--out", "plain", "--set", "model.init_from=merged.safetensors"});
}

// W0 + (alpha / r) B A of PEFT's folder and the base's folder equals the merged folder's W.
TEST_P(LoraCli, PeftsFolderIsTheMergedOne) {
  hash_of("run");
  expect_done({"export", "base", "--format", "hf", "--out", "base-hf"});
  expect_done({"export", "run", "--format", "hf", "--out", "merged"});
  expect_done({"export", "run", "--format", "hf", "--adapters", "--out", "peft"});
  const auto base = read_file(scratch_ / "base-hf/model.safetensors"),
             merged = read_file(scratch_ / "merged/model.safetensors"),
             peft = read_file(scratch_ / "peft/adapter_model.safetensors");
  const json config = json::parse(testing::read_file(scratch_ / "peft/adapter_config.json"));
  EXPECT_EQ(config.at("peft_type"), "LORA");
  EXPECT_EQ(config.at("r"), kRank);
  EXPECT_EQ(config.at("lora_alpha"), kAlpha);
  EXPECT_EQ(config.at("bias"), "none");
  EXPECT_TRUE(config.at("modules_to_save").is_null());
  EXPECT_THAT(config.at("target_modules"), SizeIs(GetParam().num_layers));
  EXPECT_THAT(peft, SizeIs(2 * GetParam().num_layers));
  const bool transposed = config.at("fan_in_fan_out");
  EXPECT_EQ(transposed, std::string(GetParam().name) == "Gpt");
  const std::vector<std::string> layers = config.at("target_modules");
  for (const auto& [name, values] : merged) {
    const std::string layer = module_of(name.substr(0, name.rfind('.')));
    if (!name.ends_with(".weight") || std::ranges::find(layers, layer) == layers.end()) {
      EXPECT_EQ(values.data, base.at(name).data) << name;
      continue;
    }
    const Values &a = peft.at("base_model.model." + layer + ".lora_A.weight"),
                 &b = peft.at("base_model.model." + layer + ".lora_B.weight");
    const std::int64_t out = values.shape[transposed ? 1 : 0], in = values.shape[transposed ? 0 : 1];
    ASSERT_EQ(a.shape, (std::vector<std::int64_t>{kRank, in})) << name;
    ASSERT_EQ(b.shape, (std::vector<std::int64_t>{out, kRank})) << name;
    for (std::int64_t i = 0; i < out * in; ++i) {
      const std::int64_t row = i / in, col = i % in;
      const auto at = static_cast<std::size_t>(transposed ? col * out + row : i);
      double sum = base.at(name).data[at];
      for (std::int64_t r = 0; r < kRank; ++r) {
        sum += kAlpha / kRank * static_cast<double>(b.data[static_cast<std::size_t>(row * kRank + r)]) *
               static_cast<double>(a.data[static_cast<std::size_t>(r * in + col)]);
      }
      ASSERT_NEAR(values.data[at], sum, 1e-7 * (1.0 + std::abs(sum))) << name << " " << row << " " << col;
    }
  }
}

// Codes of frozen weights: the same on a resumed run, and checkpoints have the numbers that training reads.
TEST_P(LoraCli, TrainsOnFourBitWeights) {
  const std::string nf4 = "train.lora.quantize=nf4";
  const std::string hash = hash_of("run", {nf4});
  EXPECT_EQ(hash_of("recompute", {nf4, "parallel.recompute_every=1"}), hash);
  hash_of("halves", {nf4, "train.steps=2"});
  EXPECT_EQ(hash_of("halves", {nf4}), hash);
  EXPECT_THAT(refusal({"train", "lora.toml", "--out", "halves", "--set", "train.steps=9"}),
              HasSubstr("quantize = \"nf4\", targets"));

  const auto before = read_file(model_file("base")), after = read_file(model_file("run"));
  for (const auto& [name, values] : after) {
    const std::string scales = name + ".nf4_scales";
    if (is_adapter_name(name)) continue;
    const auto in_scales =
        read_file((open_checkpoint_or_run(scratch_ / "run").folder / kNf4ScalesFile).string());
    if (in_scales.contains(name + ".chunk0.nf4_scales")) {  // each chunk is quantized on its own
      EXPECT_LT(largest_difference(values.data, before.at(name).data), 0.3) << name;
      EXPECT_NE(values.data, before.at(name).data) << name;
      continue;
    }
    if (!in_scales.contains(scales)) {
      EXPECT_EQ(values.data, before.at(name).data) << name;
      continue;
    }
    const std::vector<float>& numbers = before.at(name).data;
    std::vector<std::uint8_t> codes((numbers.size() + 1) / 2), scale_codes((numbers.size() + 63) / 64);
    std::vector<float> restored(numbers.size()), scale(in_scales.at(scales).data.size());
    const Nf4Weight weight{.codes = codes, .scale_codes = scale_codes, .scales = scale};
    quantize_nf4(numbers, weight, 1);
    EXPECT_EQ(scale, in_scales.at(scales).data) << name;
    dequantize_nf4({.codes = codes, .scale_codes = scale_codes, .scales = scale}, 0, restored);
    EXPECT_EQ(values.data, restored) << name;
    EXPECT_NE(values.data, numbers) << name;
  }

  expect_done({"export", "run", "--format", "hf", "--out", "merged"});
  EXPECT_LT(largest_difference(logits_of_run(scratch_ / "run"), logits_of_folder(scratch_ / "merged")), 1e-5);
  expect_done({"export", "run", "--format", "hf", "--adapters", "--out", "peft"});
  expect_done({"eval", "run"});
}

INSTANTIATE_TEST_SUITE_P(Families, LoraCli, ::testing::ValuesIn(kFamilies),
                         [](const auto& info) { return std::string(info.param.name); });

// A head for other classes is trained and exported with the adapters.
TEST_F(Cli, LoraTrainsANewHead) {
  const Family& vit = kFamilies[4];
  testing::write_file(scratch_ / "base.toml", std::string("[model]\n") + vit.model + kRest);
  ASSERT_EQ(run({"train", "base.toml", "--out", "base"}).exit_code, 0);
  const ProgramResult tuned =
      run({"train", "base.toml", "--out", "run", "--set", "train.lora.targets=[\"in_proj\"]", "--set",
           "model.init_from=base", "--set", "model.classes=5", "--set", "model.new_head=true"});
  ASSERT_EQ(tuned.exit_code, 0) << tuned.err;
  ASSERT_EQ(run({"export", "run", "--format", "hf", "--adapters", "--out", "peft"}).exit_code, 0);
  const json config = json::parse(testing::read_file(scratch_ / "peft/adapter_config.json"));
  EXPECT_EQ(config.at("modules_to_save"), json({"classifier"}));
  EXPECT_TRUE(config.at("task_type").is_null());
  const auto peft = read_file(scratch_ / "peft/adapter_model.safetensors");
  EXPECT_THAT(peft, SizeIs(2 * 6 + 2));
  EXPECT_EQ(peft.at("base_model.model.classifier.weight").shape, (std::vector<std::int64_t>{5, 24}));
  EXPECT_NE(peft.at("base_model.model.classifier.bias").data, std::vector<float>(5));
}

class LoraRefusals : public Cli {};

TEST_F(LoraRefusals, SayWhatToDo) {
  testing::write_file(scratch_ / "base.toml", std::string("[model]\n") + kFamilies[0].model + kRest);
  ASSERT_EQ(run({"train", "base.toml", "--out", "base"}).exit_code, 0);
  const std::vector<std::string> lora{"train", "base.toml", "--out",
                                      "lora",  "--set",     "train.lora.targets=[\"qkv\"]"};
  const ProgramResult result = run(lora);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err + result.out, HasSubstr("train.lora without model.init_from"));
  EXPECT_THAT(result.out, HasSubstr("of them trained"));
  EXPECT_THAT(refusal({"export", "base", "--format", "hf", "--adapters", "--out", "x"}),
              HasSubstr("was trained without train.lora"));
  EXPECT_THAT(refusal({"export", "lora", "--adapters", "--out", "x"}), HasSubstr("add --format hf"));
  EXPECT_THAT(
      refusal({"train", "base.toml", "--out", "y", "--set", "model.init_from=lora"}),
      AllOf(HasSubstr("has low-rank adapters, but the job has none"), HasSubstr("trireme export RUN")));
  // With adapters of its own, a job continues from these.
  std::vector<std::string> on = lora;
  on[3] = "on";
  on.insert(on.end(), {"--set", "model.init_from=lora", "--set", "train.steps=1"});
  const ProgramResult next = run(on);
  EXPECT_EQ(next.exit_code, 0) << next.err;
  EXPECT_THAT(next.err + next.out, Not(HasSubstr("without model.init_from")));
  std::vector<std::string> scaled = on;
  scaled.insert(scaled.end(), {"--set", "train.lora.alpha=80"});
  scaled[3] = "scaled";
  EXPECT_THAT(refusal(scaled), HasSubstr("was trained with train.lora.alpha = 16, but this job has 80"));
  scaled.back() = "train.lora.rank_stabilized=true";
  EXPECT_THAT(refusal(scaled), HasSubstr("was trained with train.lora.rank_stabilized = false"));
  on.insert(on.end(), {"--set", "train.lora.rank=5"});
  on[3] = "other";
  EXPECT_THAT(refusal(on), AllOf(HasSubstr("lora_A.weight' is F32 [8, 24], this model needs F32 [5, 24]"),
                                 HasSubstr("set rank and targets of train.lora as in the run that wrote")));
  on.back() = "train.lora.targets=[\"mlp.up\"]";
  EXPECT_THAT(refusal(on), HasSubstr("set rank and targets of train.lora as in the run that wrote"));
}

TEST_F(LoraRefusals, ARunGoesOnWithWhatItTrains) {
  testing::write_file(scratch_ / "base.toml", std::string("[model]\n") + kFamilies[0].model + kRest);
  const auto train = [&](const std::string& out, const std::vector<std::string>& keys) {
    std::vector<std::string> arguments{"train", "base.toml", "--out", out, "--set", "model.init_from=base"};
    for (const std::string& key : keys) arguments.insert(arguments.end(), {"--set", key});
    return arguments;
  };
  ASSERT_EQ(run({"train", "base.toml", "--out", "base"}).exit_code, 0);
  const std::string lora = "train.lora.targets=[\"qkv\",\"mlp.up\"]", more = "train.steps=5";
  ASSERT_EQ(run(train("lora", {lora})).exit_code, 0);
  EXPECT_THAT(
      refusal(train("lora", {more})),
      HasSubstr(
          "was made with train.lora = { rank = 8, alpha = 16, targets = [\"mlp.up\", \"qkv\"] }, and the "
          "job has none"));
  EXPECT_THAT(refusal(train("lora", {lora, more, "train.lora.alpha=80"})), HasSubstr("alpha = 80, "));
  EXPECT_EQ(run(train("lora", {"train.lora.targets=[\"mlp.up\",\"qkv\"]", more})).exit_code, 0);

  ASSERT_EQ(run(train("frozen", {"train.freeze=[\"embedding*\"]"})).exit_code, 0);
  EXPECT_THAT(refusal(train("frozen", {more, "train.freeze=[\"embedding*\", \"head.norm.*\"]"})),
              AllOf(HasSubstr("was made with train.freeze = [\"embedding*\"], and the job has"),
                    HasSubstr("'head.norm.weight' is frozen")));
  EXPECT_THAT(refusal(train("frozen", {more})), HasSubstr("'embedding.tokens' is trained"));
  EXPECT_EQ(run(train("frozen", {more, "train.freeze=[\"embedding.*\"]"})).exit_code, 0);
}

}  // namespace
}  // namespace trireme
