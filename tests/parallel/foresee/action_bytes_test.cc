// Compares computed bytes by kind of action with the counts of the recording communicator.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "parallel/comm/recording.h"
#include "parallel/foresee/predict.h"
#include "tests/parallel/foresee/action_bytes.h"
#include "tests/support/tiny_gpt.h"
#include "tests/support/tiny_resnet.h"

namespace trireme {
namespace {

using enum ActionKind;
using Bytes = std::map<ActionKind, std::int64_t>;

struct Model {
  std::string name;
  std::shared_ptr<const BlockList> blocks;
  SampleSpec sample;
  int tensor = 1;
  bool sequence = false;
};

std::vector<Model> models() {
  std::vector<Model> all;
  for (const bool tied : {false, true}) {
    GptConfig config = testing::tiny_gpt_config();
    config.tied = tied;
    all.push_back({tied ? "tied gpt" : "gpt",
                   std::make_shared<const BlockList>(build_gpt(config)),
                   {.input = {config.seq_len}, .target = {config.seq_len}}});
  }
  GptConfig in_chunks = testing::tiny_gpt_config();
  in_chunks.tensor_chunks = 2;
  all.push_back({"gpt in chunks",
                 std::make_shared<const BlockList>(build_gpt(in_chunks)),
                 {.input = {in_chunks.seq_len}, .target = {in_chunks.seq_len}},
                 in_chunks.tensor_chunks});
  all.push_back(all.back());
  all.back().name += " that share the sequence";
  all.back().sequence = true;
  all.push_back({"resnet",
                 std::make_shared<const BlockList>(build_resnet(testing::tiny_resnet_config())),
                 {.input = {testing::kTinyPixels, testing::kTinyPixels, 3},
                  .input_dtype = DType::kFloat32,
                  .target = {}}});
  return all;
}

// Calls over the tensor axis are sent during computation, so they are counted as one kind.
constexpr ActionKind kTensorCalls = kSumChunks;

Bytes measured(const StepPrediction& step) {
  Bytes sent;
  for (std::size_t i = 0; i < step.actions.size(); ++i) {
    const ActionKind kind = step.plan.actions[i].kind;
    if (step.actions[i].sent_bytes > 0)
      sent[computes(kind) ? kTensorCalls : kind] += step.actions[i].sent_bytes;
  }
  return sent;
}

// The same for a plan's bytes: merges its kinds over the tensor axis.
Bytes with_tensor_calls_as_one(Bytes bytes) {
  for (const ActionKind kind : {kReduceScatterSequence, kGatherSequence}) {
    if (const auto of_kind = bytes.extract(kind)) bytes[kTensorCalls] += of_kind.mapped();
  }
  return bytes;
}

std::int64_t total(const Bytes& bytes) {
  std::int64_t sum = 0;
  for (const auto& [kind, sent] : bytes) sum += sent;
  return sum;
}

std::string to_string(const Bytes& bytes) {
  std::string text;
  for (const auto& [kind, sent] : bytes) text += fmt::format("{} {}, ", name(kind), sent);
  return text;
}

// Checks one rank of the job.
void expect_planned_bytes(const Model& model, const EngineOptions& options, int ranks, int rank,
                          const std::string& where) {
  const PlannedJob job{model.blocks, options, model.sample, ranks};
  const auto engine = engine_on_meta(job, rank);
  const StepPrediction step = predict_step(model.blocks, options, model.sample, ranks, rank);
  const Bytes planned = sent_by_kind({.blocks = *model.blocks,
                                      .options = options,
                                      .layout = engine->layout(),
                                      .plan = engine->plan(),
                                      .rank = rank});
  EXPECT_EQ(to_string(with_tensor_calls_as_one(planned)), to_string(measured(step)))
      << where << ", rank " << rank;
  EXPECT_EQ(total(planned), step.sent_bytes) << where << ", rank " << rank;
}

// Data ranks, ranks per host, and samples per data rank.
struct Ranks {
  int data, per_host, samples;
};

TEST(ActionBytes, OfThePlanAreWhatTheCommunicatorSends) {
  for (const Model& model : models()) {
    for (const int stages : {1, 2}) {
      for (const Ranks& r : {Ranks{1, 1, 6}, {2, 2, 6}, {3, 3, 6}, {4, 2, 4}}) {
        for (const Reduction reduction : {Reduction::kCanonical, Reduction::kFast}) {
          for (const int zero : {0, 1, 2, 3}) {
            const int ranks = stages * r.data * model.tensor;
            const EngineOptions options{.global_batch = r.samples * r.data,
                                        .micro_batch = 2,
                                        .grad_clip = 1.0f,
                                        .reduction = reduction,
                                        .layout = {.tensor = model.tensor,
                                                   .sequence = model.sequence,
                                                   .pipeline = stages,
                                                   .zero = static_cast<ZeroStage>(zero)},
                                        .hosts = hosts_of(ranks, r.per_host * model.tensor),
                                        .sample = model.sample};
            const std::string where =
                fmt::format("{}, {} stages x {} ranks of {} a host, zero {}, fast {}", model.name, stages,
                            r.data, r.per_host, zero, reduction == Reduction::kFast);
            for (int rank = 0; rank<ranks; rank += model.tensor> 1 ? 1 : r.data) {
              expect_planned_bytes(model, options, ranks, rank, where);
            }
          }
        }
      }
    }
  }
}

// Shoeybi et al. 2019: a block makes four all-reduces of its activations per micro-batch, here in fp32. The
// embedding and the head make one each, and the loss needs three numbers per token, which each rank sends to
// all others.
TEST(ActionBytes, OfTheTensorAxisAreFourAllReducesABlock) {
  for (const int tensor : {2, 4, 8}) {
    constexpr std::int64_t kBatch = 2, kMicroBatches = 3, kLayers = 5;
    const GptConfig config{
        .layers = kLayers, .hidden = 32, .heads = 8, .vocab = 64, .seq_len = 6, .tensor_chunks = 8};
    const SampleSpec sample{.input = {config.seq_len}, .target = {config.seq_len}};
    const EngineOptions options{.global_batch = kBatch * kMicroBatches,
                                .micro_batch = kBatch,
                                .layout = {.tensor = tensor},
                                .sample = sample};
    const std::int64_t tokens = kBatch * config.seq_len;
    const std::int64_t all_reduce = 2 * (tensor - 1) * tokens * config.hidden * 4 / tensor;
    const std::int64_t statistics = (tensor - 1) * 3 * tokens * 4;
    const auto blocks = std::make_shared<const BlockList>(build_gpt(config));
    for (int rank = 0; rank < tensor; ++rank) {
      EXPECT_EQ(measured(predict_step(blocks, options, sample, tensor, rank))[kSumChunks],
                kMicroBatches * ((4 * kLayers + 2) * all_reduce + statistics))
          << tensor;
    }
  }
}

// Korthikanti et al. 2022: each all-reduce becomes a reduce-scatter of fp32 sums and an all-gather in the
// compute dtype. Backward has two more all-gathers per block, of the inputs of its products. Sums for norms
// are two numbers per column.
TEST(ActionBytes, OfASharedSequenceAreTheHalvesOfAllReducesAndTwoGathersABlock) {
  for (const PrecisionMode mode : {PrecisionMode::kFp32, PrecisionMode::kBf16}) {
    for (const int tensor : {2, 4, 8}) {
      constexpr std::int64_t kBatch = 2, kMicroBatches = 3, kLayers = 5;
      const GptConfig config{
          .layers = kLayers, .hidden = 32, .heads = 8, .vocab = 64, .seq_len = 8, .tensor_chunks = 8};
      const SampleSpec sample{.input = {config.seq_len}, .target = {config.seq_len}};
      const EngineOptions options{.global_batch = kBatch * kMicroBatches,
                                  .micro_batch = kBatch,
                                  .layout = {.tensor = tensor, .sequence = true},
                                  .sample = sample,
                                  .precision = Precision(mode)};
      const std::int64_t tokens = kBatch * config.seq_len;
      const std::int64_t others = (tensor - 1) * tokens * config.hidden / tensor;  // elements of their shards
      const std::int64_t reduce_scatter = others * 4;
      const std::int64_t all_gather = others * (mode == PrecisionMode::kFp32 ? 4 : 2);
      const std::int64_t norm = (tensor - 1) * 2 * config.hidden * 4, loss = (tensor - 1) * 3 * tokens * 4;
      const std::int64_t block = 4 * reduce_scatter + 6 * all_gather + 2 * norm;
      const std::int64_t embedding = reduce_scatter + all_gather,
                         head = reduce_scatter + 2 * all_gather + norm + loss;
      const auto blocks = std::make_shared<const BlockList>(build_gpt(config));
      for (int rank = 0; rank < tensor; ++rank) {
        EXPECT_EQ(measured(predict_step(blocks, options, sample, tensor, rank))[kTensorCalls],
                  kMicroBatches * (kLayers * block + embedding + head))
            << name(mode) << ", " << tensor << " ranks";
      }
    }
  }
}

// One job, four plans.
TEST(ActionBytes, EveryZeroStageHasItsOwnActions) {
  for (const Model& model : models()) {
    std::vector<std::vector<Action>> lists;
    for (const int zero : {0, 1, 2, 3}) {
      const EngineOptions options{
          .global_batch = 4, .layout = {.zero = static_cast<ZeroStage>(zero)}, .sample = model.sample};
      const StepPrediction step = predict_step(model.blocks, options, model.sample, 2, 0);
      EXPECT_EQ(measured(step).contains(kGatherUpdated), zero == 1 || zero == 2) << model.name << zero;
      EXPECT_EQ(measured(step).contains(kReduceStatistics), model.name == "resnet") << model.name << zero;
      for (const auto& other : lists) EXPECT_NE(step.plan.actions, other) << model.name << ", zero " << zero;
      lists.push_back(step.plan.actions);
    }
  }
}

}  // namespace
}  // namespace trireme
