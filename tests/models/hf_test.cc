// GPT-2, Llama, Qwen2, Qwen3, BERT and ViT through folders in Hugging Face's format. Compares every bit of
// the state, also with sharded ranks.
#include <gtest/gtest.h>

#include <functional>

#include "parallel/comm/local.h"
#include "parallel/run/checkpoint_state.h"
#include "runtime/checkpoint/hf_source.h"
#include "runtime/checkpoint/hf_writer.h"
#include "runtime/checkpoint/safetensors_source.h"
#include "tests/models/hf_models.h"

namespace trireme {
namespace {

using testing::classifier;
using testing::kBert;
using testing::kClassifier;
using testing::kGpt;
using testing::kLlama;
using testing::kVit;
using testing::message_of;
using testing::TemporaryFolder;
using testing::tiny_decoders;

struct Model {
  std::function<BlockList()> build;
  HfModel hf;
};

Model model_of(const std::string& type) {
  if (type == kGptHfType) return {[] { return build_gpt(kGpt); }, gpt_to_hf(kGpt)};
  if (type == kBertHfType) return {[] { return build_bert(kBert); }, bert_to_hf(kBert)};
  if (type == kClassifier) return {[] { return build_bert(classifier()); }, bert_to_hf(classifier())};
  if (type == kVitHfType) return {[] { return build_vit(kVit); }, vit_to_hf(kVit)};
  const LlamaConfig& decoder = tiny_decoders().at(type);
  return {[decoder] { return build_llama(decoder); }, llama_to_hf(decoder)};
}

class HfModels : public ::testing::TestWithParam<const char*> {};
class OlderHfFiles : public ::testing::TestWithParam<const char*> {};

TEST_P(HfModels, TheStateComesBackOnEveryLayout) {
  const Model model = model_of(GetParam());
  const TemporaryFolder folder;
  std::uint64_t hash = 0;
  run_local_ranks(1, [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(model.build(), comm, {.global_batch = 2, .micro_batch = 1, .seed = 3});
    save_state(engine, folder.path());
    hash = engine.state_hash();
  });
  write_hf_folder(SafetensorsReader(folder / kModelFile), model.hf, DType::kFloat32, folder / "hf");
  for (const int ranks : {1, 2, 3}) {
    run_local_ranks(ranks, [&](const std::shared_ptr<Communicator>& comm) {
      Engine engine(
          model.build(), comm,
          {.global_batch = 6, .micro_batch = 1, .seed = 4, .layout = {.zero = ZeroStage::kParameters}});
      EXPECT_NE(engine.state_hash(), hash);
      const HfSource source(folder / "hf", model.hf);
      check_model(engine, source);
      load_model(engine, source);
      EXPECT_EQ(engine.state_hash(), hash) << ranks;
    });
  }
}

// Variants of files on the hub: without the prefix of the outer module, with masks or frequencies, and with a
// head that repeats the token table.
TEST_P(OlderHfFiles, AreRead) {
  const bool gpt = GetParam() == std::string_view(kGptHfType);
  GptConfig tied = kGpt;
  tied.tied = true;
  const HfModel model = gpt ? gpt_to_hf(tied) : llama_to_hf(kLlama);
  std::vector<SafetensorsEntry> wanted, stored;
  run_local_ranks(1, [&](const std::shared_ptr<Communicator>& comm) {
    const Engine engine(gpt ? build_gpt(tied) : build_llama(kLlama), comm,
                        {.global_batch = 1, .micro_batch = 1});
    const TemporaryFolder folder;
    save_state(engine, folder.path());
    const SafetensorsReader saved(folder / kModelFile);
    wanted.assign(saved.tensors().begin(), saved.tensors().end());
  });
  for (const HfTensor& tensor : model.tensors) {
    for (const HfPart& part : tensor.parts) {
      EXPECT_TRUE(part.name.starts_with(model.prefix)) << part.name;
      stored.push_back({part.name.substr(model.prefix.size()), "BF16", part.shape});
    }
  }
  // Nonzero values beside zeros elsewhere.
  std::map<std::string, std::vector<float>> values;
  const auto add = [&](const std::string& name, std::vector<std::int64_t> shape, std::vector<float> numbers) {
    stored.push_back({name, "F32", std::move(shape)});
    values[name] = std::move(numbers);
  };
  if (gpt) {
    add("h.1.attn.bias", {1, 1, 2, 2}, {1, 0, 1, 1});
    add("h.1.attn.masked_bias", {}, {-1e4f});
  } else {
    const RopeFrequencies rope = ops::rope_frequencies(6, kLlama.rope_theta, kLlama.rope_scaling);
    add("layers.1.self_attn.rotary_emb.inv_freq", {3}, {rope.frequencies, rope.frequencies + 3});
  }
  stored.push_back({"lm_head.weight", "F32", {37, gpt ? 21 : 36}});
  const auto message = [&] {
    const TemporaryFolder folder;
    SafetensorsWriter writer(folder / kModelFile, stored);
    for (const SafetensorsEntry& entry : stored) {
      if (values.contains(entry.name)) {
        writer.append(values[entry.name]);
      } else {
        writer.append(std::vector<std::byte>(*safetensors_data_bytes(entry)));
      }
    }
    writer.commit();
    return message_of([&] { HfSource(folder.path(), model).check(wanted); });
  };
  EXPECT_EQ(message(), "");
  for (auto& [name, numbers] : values) {  // tensors of another model
    const std::vector<float> right = numbers;
    numbers.back() *= 0.75f;
    EXPECT_NE(message().find("tensor '" + name + "'"), std::string::npos) << message();
    numbers = right;
  }
  stored.push_back({gpt ? "h.2.attn.c_attn.bias" : "layers.2.mlp.up_proj.weight", "F32", {3}});
  EXPECT_NE(message(), "");
}

INSTANTIATE_TEST_SUITE_P(Families, OlderHfFiles, ::testing::Values(kGptHfType, kLlamaHfType));
INSTANTIATE_TEST_SUITE_P(Families, HfModels,
                         ::testing::Values(kGptHfType, kLlamaHfType, kMistralHfType, kQwen2HfType,
                                           kQwen3HfType, kSmolLm3HfType, kOlmo2HfType, kOlmo3HfType,
                                           kGemma3HfType, kBertHfType, kClassifier, kVitHfType));

// Loads from our checkpoint and from their folder. A head of the requested kind is loaded with the rest.
TEST(NewHeads, OfAClassifierOnAnotherModelsEncoder) {
  const TemporaryFolder folder;
  run_local_ranks(1, [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(build_bert(kBert), comm, {.global_batch = 1, .micro_batch = 1, .seed = 3});
    save_state(engine, folder.path());
  });
  const std::filesystem::path file = folder / kModelFile;
  write_hf_folder(SafetensorsReader(file), bert_to_hf(kBert), DType::kFloat32, folder / "hf");
  const auto start = [](const TensorSource& source, int ranks) {
    std::uint64_t hash = 0;
    run_local_ranks(ranks, [&](const std::shared_ptr<Communicator>& comm) {
      Engine engine(
          build_bert(classifier()), comm,
          {.global_batch = 2, .micro_batch = 1, .seed = 5, .layout = {.zero = ZeroStage::kParameters}});
      const std::vector<std::string> expected{"head.pooler.weight", "head.classifier.weight",
                                              "head.pooler.bias", "head.classifier.bias"};
      EXPECT_EQ(new_tensors(engine, source), expected);
      load_model(engine, source);
      const std::uint64_t mine = engine.state_hash();
      if (comm->rank() == 0) hash = mine;
    });
    return hash;
  };
  const SafetensorsSource ours(file, {.prefix = "head."});
  const std::uint64_t hash = start(ours, 1);
  EXPECT_EQ(start(ours, 2), hash);
  EXPECT_EQ(start(HfSource(folder / "hf", bert_to_hf(classifier()), {.prefix = "head."}), 1), hash);
  run_local_ranks(1, [&](const std::shared_ptr<Communicator>& comm) {
    Engine same(build_bert(kBert), comm, {.global_batch = 1, .micro_batch = 1});
    EXPECT_TRUE(new_tensors(same, ours).empty());
    Engine other(build_bert(classifier()), comm, {.global_batch = 1, .micro_batch = 1});
    EXPECT_NE(message_of([&] { check_model(other, SafetensorsSource(file)); }), "");
  });
}

// The file's own head is ignored, even with the same number of classes.
TEST(NewHeads, OfAnImageModelWithOtherClasses) {
  const TemporaryFolder folder;
  run_local_ranks(1, [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(build_vit(kVit), comm, {.global_batch = 1, .micro_batch = 1, .seed = 3});
    save_state(engine, folder.path());
  });
  const std::filesystem::path file = folder / kModelFile;
  write_hf_folder(SafetensorsReader(file), vit_to_hf(kVit), DType::kFloat32, folder / "hf");
  const NewHead head{.prefix = "heads.head.", .when = NewHead::When::kAlways};
  for (const std::int64_t classes : {kVit.classes, std::int64_t{3}}) {
    VitConfig config = kVit;
    config.classes = classes;
    run_local_ranks(1, [&](const std::shared_ptr<Communicator>& comm) {
      const std::vector<std::string> expected{"heads.head.weight", "heads.head.bias"};
      const auto start = [&](const TensorSource* source) {
        Engine engine(build_vit(config), comm, {.global_batch = 1, .micro_batch = 1, .seed = 5});
        if (source != nullptr) {
          EXPECT_EQ(new_tensors(engine, *source), expected);
          check_model(engine, *source);
          load_model(engine, *source);
        }
        return engine.state_hash();
      };
      const std::uint64_t ours = start(std::make_unique<SafetensorsSource>(file, head).get());
      EXPECT_EQ(start(std::make_unique<HfSource>(folder / "hf", vit_to_hf(config), head).get()), ours);
      EXPECT_NE(start(nullptr), ours);
    });
  }
}

}  // namespace
}  // namespace trireme
