#include "parallel/run/checkpoint_state.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <ostream>
#include <string>

#include "parallel/comm/local.h"
#include "runtime/base/error.h"
#include "runtime/checkpoint/safetensors_source.h"
#include "tests/support/exact_memory.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiny_gpt.h"
#include "tests/support/tiny_resnet.h"

namespace trireme {
namespace {

constexpr std::int64_t kBatch = 8;

void train(Engine& engine, std::int64_t to_step) {
  const GptConfig config = testing::tiny_gpt_config();
  while (engine.steps_done() < to_step) {
    engine.step(testing::token_source(config.vocab, config.seq_len, engine.steps_done() * kBatch),
                kBatch * config.seq_len, 1e-2);
  }
}

EngineOptions options(OptimizerConfig::Kind kind = OptimizerConfig::Kind::kAdamW) {
  return {
      .global_batch = kBatch, .micro_batch = 2, .seed = 5, .optimizer = {.kind = kind, .weight_decay = 0.1f}};
}

// Trains on `ranks` ranks from a saved step (or from scratch) and returns the hash; rank 0 saves at the end.
std::uint64_t run(int ranks, std::int64_t from, std::int64_t to, const std::filesystem::path& load,
                  const std::filesystem::path& save) {
  std::uint64_t hash = 0;
  run_local_ranks(ranks, [&](const std::shared_ptr<Communicator>& comm) {
    GptConfig config = testing::tiny_gpt_config();
    config.dropout = 0.1f;
    Engine engine(build_gpt(config), comm, options());
    if (!load.empty()) {
      load_state(engine, load, StateParts::kAll);
      engine.set_steps_done(from);
    }
    train(engine, to);
    const std::uint64_t mine = engine.state_hash();
    if (!save.empty()) save_state(engine, save);
    if (comm->rank() == 0) hash = mine;
  });
  return hash;
}

TEST(CheckpointState, ContinuesBitIdenticallyOnAnotherNumberOfRanks) {
  const testing::TemporaryFolder folder;
  const std::uint64_t uninterrupted = run(1, 0, 7, {}, {});
  for (const int writer : {1, 2}) {
    run(writer, 0, 3, {}, folder.path());
    for (const int reader : {1, 2, 4}) {
      EXPECT_EQ(run(reader, 3, 7, folder.path(), {}), uninterrupted)
          << writer << " -> " << reader << " ranks";
    }
  }
}

struct InfiniteRun {
  std::uint64_t hash = 0;
  std::int64_t non_finite = 0;  // in rank 0's part
};

// As run(), with steps that make the state, and the gaps between parameters, infinite or NaN.
InfiniteRun run_to_infinity(int ranks, std::int64_t from, std::int64_t to,
                            const testing::TemporaryFolder& folder) {
  InfiniteRun outcome;
  run_local_ranks(ranks, [&](const std::shared_ptr<Communicator>& comm) {
    EngineOptions infinite = options();
    infinite.layout.zero = ranks > 1 ? ZeroStage::kGradients : ZeroStage::kNone;
    Engine engine(build_gpt(testing::tiny_gpt_config()), comm, infinite);
    if (from > 0) {
      load_state(engine, folder.path(), StateParts::kAll);
      engine.set_steps_done(from);
    }
    const std::uint64_t loaded = engine.state_hash();
    const GptConfig config = testing::tiny_gpt_config();
    for (std::int64_t step = from; step < to; ++step) {
      engine.step(testing::token_source(config.vocab, config.seq_len, step * kBatch), kBatch * config.seq_len,
                  3e38);
    }
    comm->barrier();  // all ranks have read before the files are replaced
    if (to > from) save_state(engine, folder.path());
    const std::uint64_t hash = to > from ? engine.state_hash() : loaded;
    if (comm->rank() != 0) return;
    outcome.hash = hash;
    for (const float value : engine.context().to_host(engine.parameters().master(0))) {
      if (!std::isfinite(value)) ++outcome.non_finite;
    }
  });
  return outcome;
}

TEST(CheckpointState, InfiniteStateIsLoadedWithTheHashItHad) {
  for (const int ranks : {1, 2}) {
    const testing::TemporaryFolder folder;
    const InfiniteRun saved = run_to_infinity(ranks, 0, 4, folder);
    EXPECT_GT(saved.non_finite, 0);
    for (const int reader : {1, 2}) {
      EXPECT_EQ(run_to_infinity(reader, 4, 4, folder).hash, saved.hash) << ranks << " -> " << reader;
    }
    const testing::TemporaryFolder other;
    EXPECT_EQ(run_to_infinity(ranks, 4, 5, folder).hash, run_to_infinity(ranks, 0, 5, other).hash);
  }
}

void expect_refused(BlockList blocks, const EngineOptions& opts, const std::filesystem::path& folder,
                    const std::string& text) {
  Engine engine(std::move(blocks), LocalWorld(1).communicator(0), opts);
  const std::uint64_t before = engine.state_hash();
  try {
    load_state(engine, folder, StateParts::kAll);
    FAIL() << "accepted; wanted: " << text;
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kInvalidInput);
    EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
  }
  EXPECT_EQ(engine.state_hash(), before) << "half-loaded";
}

TEST(CheckpointState, RefusesAnotherModel) {
  const testing::TemporaryFolder folder;
  run(1, 0, 1, {}, folder.path());
  GptConfig deeper = testing::tiny_gpt_config();
  deeper.layers = 3;
  expect_refused(build_gpt(deeper), options(), folder.path(), "has no tensor 'blocks.2.");
  GptConfig shallower = testing::tiny_gpt_config();
  shallower.layers = 1;
  expect_refused(
      build_gpt(shallower), options(), folder.path(),
      "holds the tensor 'blocks.1.attention.out.bias', which this model and optimizer do not have");
  GptConfig wider = testing::tiny_gpt_config();
  wider.vocab = 62;
  expect_refused(build_gpt(wider), options(), folder.path(),
                 "tensor 'embedding.tokens' is F32 [61, 32], this model needs F32 [62, 32]");
  EngineOptions sgd = options(OptimizerConfig::Kind::kSgd);
  sgd.optimizer.momentum = 0.9f;
  expect_refused(build_gpt(testing::tiny_gpt_config()), sgd, folder.path(),
                 "has no tensor 'momentum.embedding.tokens'");
}

// Writes a model's file with one changed number, and loads it on two ranks that each have half of the state.
std::string load_with(const ResNetConfig& config, const std::string& tensor, std::size_t at, float value) {
  const testing::TemporaryFolder folder;
  const EngineOptions sharded{
      .global_batch = 4, .micro_batch = 2, .layout = {.zero = ZeroStage::kParameters}};
  std::mutex mutex;
  std::string messages;
  run_local_ranks(2, [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(build_resnet(config), comm, sharded);
    save_state(engine, folder.path());
    comm->barrier();
    if (comm->rank() == 0) {
      std::string bytes = testing::read_file(folder / kModelFile);
      const SafetensorsReader saved(folder / kModelFile);
      const auto place =
          static_cast<std::size_t>(reinterpret_cast<const char*>(saved.tensor(tensor).data.data()) -
                                   reinterpret_cast<const char*>(saved.tensors().front().data.data()));
      std::size_t data_bytes = 0;
      for (const SafetensorsTensor& t : saved.tensors()) data_bytes += t.data.size();
      std::memcpy(bytes.data() + bytes.size() - data_bytes + place + at * sizeof value, &value, sizeof value);
      testing::write_file(folder / "changed", bytes);
    }
    comm->barrier();
    const std::uint64_t before = engine.state_hash();
    try {
      check_model(engine, SafetensorsSource(folder / "changed"));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidInput);
      const std::scoped_lock lock(mutex);
      messages += error.what();
    }
    EXPECT_EQ(engine.state_hash(), before);
  });
  return messages;
}

TEST(CheckpointState, RefusesNumbersThatNoModelHas) {
  const ResNetConfig config = testing::tiny_resnet_config();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinite = std::numeric_limits<float>::infinity();
  EXPECT_EQ(load_with(config, "conv1.weight", 3, -2.0f), "");
  EXPECT_EQ(load_with(config, "bn1.running_mean", 1, -2.0f), "");
  EXPECT_EQ(load_with(config, "bn1.running_var", 1, 0.0f), "");
  const std::string weight = load_with(config, "conv1.weight", 3, nan);
  EXPECT_NE(weight.find("changed: element 3 of tensor 'conv1.weight' is nan, which is no finite number"),
            std::string::npos)
      << weight;
  // The last element of the last tensor, on either rank.
  EXPECT_NE(load_with(config, "fc.bias", 4, -infinite).find("element 4 of tensor 'fc.bias' is -inf"),
            std::string::npos);
  EXPECT_NE(load_with(config, "bn1.running_mean", 0, infinite).find("'bn1.running_mean' is inf"),
            std::string::npos);
  const std::string variance = load_with(config, "bn1.running_var", 2, -1e-3f);
  EXPECT_NE(variance.find("element 2 of tensor 'bn1.running_var' is -0.001, which is no variance"),
            std::string::npos)
      << variance;
}

// Saving, a hash and evaluations between two steps.
struct MemoryCase {
  const char* name;
  int ranks;
  GptConfig gpt;
  EngineOptions options;
};

void PrintTo(const MemoryCase& c, std::ostream* out) {
  *out << c.name;
}

EngineOptions tight(EngineOptions options, const GptConfig& gpt) {
  options.seed = 5;
  options.sample = SampleSpec{.input = {gpt.seq_len}, .target = {gpt.seq_len}};
  return options;
}

// Trains with a memory limit of one step, or without limit. Returns the bytes of the files that rank 0 saves.
std::map<std::string, std::string> files_of(const MemoryCase& c, bool is_limited) {
  const testing::TemporaryFolder folder;
  std::map<std::string, std::string> files;
  const auto blocks = std::make_shared<const BlockList>(build_gpt(c.gpt));
  EngineOptions options = c.options;
  if (!is_limited) {
    options.layout = {};
    options.hosts = {};
  }
  run_local_ranks(is_limited ? c.ranks : 1, [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(blocks, comm,
                  is_limited ? testing::with_predicted_memory(blocks, options, *comm) : options);
    for (std::int64_t step = 0; step < 2; ++step) {
      const std::int64_t samples = options.global_batch;
      engine.step(testing::token_source(c.gpt.vocab, c.gpt.seq_len, step * samples), samples * c.gpt.seq_len,
                  1e-2);
      engine.state_hash();
      // More micro-batches than a step has.
      for (const Weights weights : {Weights::kParameters, Weights::kAverages}) {
        if (weights == Weights::kAverages && options.ema == 0) continue;
        const std::int64_t evaluated = 40 * options.micro_batch * c.ranks + 1;
        engine.evaluate(testing::token_source(c.gpt.vocab, c.gpt.seq_len, 777), evaluated,
                        evaluated * c.gpt.seq_len, {}, weights);
      }
      for (const CheckpointFile& file : save_state(engine, folder.path())) {
        files[file.name] = testing::read_file(folder / file.name);
      }
    }
  });
  return files;
}

class CheckpointMemory : public ::testing::TestWithParam<MemoryCase> {};

TEST_P(CheckpointMemory, SavesAndEvaluatesInTheMemoryOfAStepWithTheSameBytes) {
  const auto limited = files_of(GetParam(), true), expected = files_of(GetParam(), false);
  EXPECT_GE(limited.size(), 1u);
  EXPECT_EQ(limited.size(), expected.size());
  for (const auto& [name, bytes] : expected) EXPECT_TRUE(limited.at(name) == bytes) << name;
}

constexpr GptConfig kWide{
    .layers = 1, .hidden = 64, .heads = 4, .vocab = 1024, .seq_len = 4, .tensor_chunks = 4};
constexpr GptConfig kDeep{.layers = 2, .hidden = 64, .heads = 4, .vocab = 512, .seq_len = 2, .tied = false};
constexpr OptimizerConfig kNoState{.kind = OptimizerConfig::Kind::kSgd};

Precision half() {
  Precision precision(PrecisionMode::kBf16);
  precision.grad_dtype = DType::kBFloat16;
  return precision;
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, CheckpointMemory,
    ::testing::Values(
        MemoryCase{"tensor_ranks", 4, kWide,
                   tight({.global_batch = 1,
                          .micro_batch = 1,
                          .optimizer = kNoState,
                          .layout = {.tensor = 4},
                          .precision = half()},
                         kWide)},
        MemoryCase{"tensor_ranks_that_share_the_sequence", 4, kWide,
                   tight({.global_batch = 2,
                          .micro_batch = 1,
                          .optimizer = kNoState,
                          .ema = 0.9f,
                          .layout = {.tensor = 2, .sequence = true, .zero = ZeroStage::kParameters},
                          .precision = half()},
                         kWide)},
        MemoryCase{"frozen_parameters_on_stages", 8, kDeep,
                   tight({.global_batch = 2,
                          .micro_batch = 1,
                          .rules = {.trained = {"*qkv.bias", "head.norm*"}},
                          .layout = {.pipeline = 4, .zero = ZeroStage::kGradients}},
                         kDeep)},
        MemoryCase{"frozen_parameters_with_averages", 2, kDeep,
                   tight({.global_batch = 2,
                          .micro_batch = 1,
                          .optimizer = kNoState,
                          .rules = {.trained = {"embedding*"}},
                          .ema = 0.9f,
                          .layout = {.pipeline = 2},
                          .precision = half()},
                         kDeep)},
        MemoryCase{"one_large_group_on_two_hosts", 4, kDeep,
                   tight({.global_batch = 4,
                          .micro_batch = 1,
                          .layout = {.zero = ZeroStage::kGradients,
                                     .group_min_bytes = 1 << 30,
                                     .exchange = Exchange::kHierarchical},
                          .hosts = {0, 0, 1, 1},
                          .precision = half()},
                         kDeep)},
        MemoryCase{"one_large_group_with_averages", 2, kDeep,
                   tight({.global_batch = 2,
                          .micro_batch = 1,
                          .optimizer = kNoState,
                          .ema = 0.9f,
                          .layout = {.zero = ZeroStage::kParameters, .group_min_bytes = 1 << 30},
                          .precision = half()},
                         kDeep)},
        MemoryCase{"offload", 1, kDeep,
                   tight({.global_batch = 1,
                          .micro_batch = 1,
                          .ema = 0.9f,
                          .layout = {.recompute_every = 1},
                          .offload = Offload::kOptimizer,
                          .precision = half()},
                         kDeep)},
        MemoryCase{"interleaved_stages_that_verify", 4, kDeep,
                   tight({.global_batch = 8,
                          .micro_batch = 1,
                          .layout = {.pipeline = 2,
                                     .schedule = PipelineSchedule::kInterleaved,
                                     .chunks = 2,
                                     .zero = ZeroStage::kOptimizer},
                          .verify_state = true,
                          .snapshots = true},
                         kDeep)},
        MemoryCase{"uneven_ranks", 3, kDeep,
                   tight({.global_batch = 4, .micro_batch = 1, .optimizer = kNoState, .ema = 0.5f}, kDeep)}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace trireme
