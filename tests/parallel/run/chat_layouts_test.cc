// Conversations with marked targets, packed and padded: the same state on every layout, and a packed
// conversation is computed as if it were alone in its row.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "models/gpt.h"
#include "models/llama.h"
#include "runtime/data/document_dataset.h"
#include "tests/support/adapted_model.h"
#include "tests/support/layout_families.h"
#include "tests/support/sample_chats.h"
#include "tests/support/sanitized.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using testing::LayoutFamily;
using testing::RankedLayout;

constexpr std::int64_t kRow = 16, kIds = 37;

std::shared_ptr<const DocumentDataset> chats(bool pack) {
  static const testing::TemporaryFolder folder;
  static const std::filesystem::path path =
      testing::write_sample_chats(folder / "train.bin", {.count = 33, .max_tokens = 15, .vocab = kIds});
  return std::make_shared<DocumentDataset>(
      DocumentDataset::Options{.path = path,
                               .sequence_length = kRow,
                               .pack = pack,
                               .targets = DocumentDataset::Targets::kNextTokens,
                               .seed = 4,
                               .vocab_size = kIds});
}

BlockList decoder(bool is_llama, float dropout = 0.0f) {
  if (!is_llama) {
    return build_gpt(
        {.layers = 3, .hidden = 24, .heads = 4, .vocab = kIds, .seq_len = kRow, .dropout = dropout});
  }
  return build_llama({.layers = 3,
                      .hidden = 24,
                      .heads = 4,
                      .kv_heads = 2,
                      .ffn = 40,
                      .vocab = kIds,
                      .seq_len = kRow,
                      .rope_theta = 100.0});
}

SampleSpec sample_of(bool pack) {
  return {.input = {kRow}, .target = {kRow}, .documents = pack};
}

LayoutFamily decoder_on(bool is_llama, bool pack) {
  const auto data = chats(pack);
  return {
      .name = is_llama ? "llama" : "gpt",
      .build = [is_llama] { return decoder(is_llama, 0.1f); },
      .sample = sample_of(pack),
      .batches =
          [data](std::int64_t first) {
            return [data, first](std::int64_t sample, std::int64_t count) {
              return data->read_train(first + sample, count);
            };
          },
      .targets = [data](std::int64_t first) { return data->num_train_targets(first, testing::kFamilyBatch); },
      .targets_of_sample = kRow,
      .steps = 4};
}

class ChatLayouts : public ::testing::TestWithParam<PrecisionMode> {};

TEST_P(ChatLayouts, PackedAndPaddedConversationsGiveTheSameState) {
  for (const bool is_llama : {false, true}) {
    for (const bool pack : {false, true}) {
      const LayoutFamily family = decoder_on(is_llama, pack);
      SCOPED_TRACE(family.name + (pack ? " packed" : " padded"));
      const auto expected = testing::run_family(family, GetParam(), {});
      EXPECT_GT(expected.train_loss, 0);
      for (const RankedLayout& layout : testing::sampled(testing::common_layouts(), 4)) {
        EXPECT_TRUE(testing::run_family(family, GetParam(), layout) == expected) << layout.to_string();
      }
    }
  }
}

// Steps of eight rows: one rank accumulates eight micro-batches, four ranks two, eight ranks one.
TEST_P(ChatLayouts, AccumulationChangesNoBit) {
  for (const bool is_llama : {false, true}) {
    const LayoutFamily family = decoder_on(is_llama, /*pack=*/true);
    const auto expected = testing::run_family(family, GetParam(), {});
    for (const int ranks : {4, 8})
      EXPECT_TRUE(testing::run_family(family, GetParam(), {.ranks = ranks}) == expected) << ranks;
  }
}

/// A decoder like Qwen3's or Gemma 3's in four tensor chunks, with adapters of all of its layers.
BlockList decoder_in_chunks(bool is_gemma) {
  LlamaConfig config{.layers = 3,
                     .hidden = 24,
                     .heads = 8,
                     .kv_heads = 4,
                     .head_width = 6,
                     .ffn = 40,
                     .vocab = 40,
                     .seq_len = kRow,
                     .rope_theta = 100.0,
                     .qk_norm = QkNorm::kHead,
                     .tied = true,
                     .tensor_chunks = 4};
  if (is_gemma) {
    config.norm_position = NormPosition::kBoth, config.norm_unit_offset = true;
    config.mlp_gate = MlpGate::kGelu, config.embedding_scale = 4.9;
    config.window = 5, config.layer_pattern = "wf", config.rope_local_theta = 10.0;
  }
  return testing::adapted(build_llama(config));
}

class ChunkedChatLayouts : public ::testing::TestWithParam<PrecisionMode> {};

// Packed rows x tensor and sequence axes x stages x ZeRO x recompute x adapters, of Qwen3 beside weights in
// four bits.
TEST_P(ChunkedChatLayouts, OfAdaptersGiveTheSameState) {
  for (const bool is_gemma : {false, true}) {
    LayoutFamily family = decoder_on(/*is_llama=*/true, /*pack=*/true);
    family.name = is_gemma ? "gemma3" : "qwen3";
    family.build = [is_gemma] { return decoder_in_chunks(is_gemma); };
    family.rules = testing::adapter_rules(/*quantizes=*/!is_gemma);
    SCOPED_TRACE(family.name);
    const auto expected = testing::run_family(family, GetParam(), {});
    EXPECT_GT(expected.train_loss, 0);
    bool sequence = is_gemma;
    for (RankedLayout layout : testing::sampled(testing::tensor_layouts(), 3)) {
      sequence = !sequence;
      layout.layout.sequence = sequence && layout.layout.tensor > 1;
      EXPECT_TRUE(testing::run_family(family, GetParam(), layout) == expected) << layout.to_string();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, ChunkedChatLayouts,
                         ::testing::Values(PrecisionMode::kFp32, PrecisionMode::kTf32, PrecisionMode::kFp16,
                                           PrecisionMode::kBf16),
                         [](const auto& info) { return std::string(name(info.param)); });
INSTANTIATE_TEST_SUITE_P(Precisions, ChatLayouts,
                         ::testing::Values(PrecisionMode::kFp32, PrecisionMode::kBf16),
                         [](const auto& info) { return std::string(name(info.param)); });

// Runs on one rank that trains in steps of `global_batch` rows.
void with_engine(bool is_llama, bool pack, std::int64_t global_batch,
                 const std::function<void(Engine&)>& run) {
  const auto blocks = std::make_shared<const BlockList>(decoder(is_llama));
  run_local_ranks(1, [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(
        blocks, comm,
        {.threads = 1, .global_batch = global_batch, .micro_batch = 1, .seed = 3, .sample = sample_of(pack)});
    run(engine);
  });
}

std::vector<std::int32_t> tokens_of(const HostBatch& batch, std::int32_t begin, std::int32_t end) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(end - begin));
  std::memcpy(tokens.data(), batch.inputs.data() + static_cast<std::size_t>(begin) * sizeof(std::int32_t),
              tokens.size() * sizeof(std::int32_t));
  return tokens;
}

/// The mean loss of each conversation, by its tokens. Targets of others in its row are ignored.
std::map<std::vector<std::int32_t>, float> loss_of_each(bool is_llama, bool pack) {
  std::map<std::vector<std::int32_t>, float> losses;
  const auto data = chats(pack);
  with_engine(is_llama, pack, 1, [&](Engine& engine) {
    for (std::int64_t row = 0; row < data->num_samples(); ++row) {
      std::int32_t begin = 0;
      for (const std::int32_t end : data->sequential_documents(row)) {
        HostBatch batch = data->read_sequential(row, 1);
        std::int64_t num_targets = 0;
        for (std::int32_t t = 0; t < kRow; ++t) {
          std::int32_t& target = batch.targets[static_cast<std::size_t>(t)];
          if (t < begin || t >= end) target = -1;
          num_targets += target >= 0 ? 1 : 0;
        }
        losses[tokens_of(batch, begin, end)] =
            engine.evaluate([&](std::int64_t, std::int64_t) { return batch; }, 1, num_targets);
        begin = end;
      }
    }
  });
  return losses;
}

TEST(Chats, APackedConversationHasTheLossOfItsOwnRow) {
  for (const bool is_llama : {false, true}) {
    const auto padded = loss_of_each(is_llama, false), packed = loss_of_each(is_llama, true);
    ASSERT_LT(chats(true)->num_samples(), chats(false)->num_samples());
    ASSERT_GT(padded.size(), 25u);
    ASSERT_EQ(packed.size(), padded.size());
    for (const auto& [tokens, loss] : padded) {
      ASSERT_TRUE(packed.contains(tokens));
      EXPECT_GT(loss, 1.0f);
      EXPECT_NEAR(packed.at(tokens), loss, 1e-6 * loss);
    }
  }
}

// One step reads all conversations. Sums have another order, so gradients are equal within rounding.
TEST(Chats, PackedConversationsTrainAsTheirOwnRows) {
  for (const bool is_llama : {false, true}) {
    std::vector<StepResult> results[2];
    for (const bool pack : {false, true}) {
      const auto data = chats(pack);
      const std::int64_t rows = data->num_samples();
      with_engine(is_llama, pack, rows, [&](Engine& engine) {
        for (int step = 0; step < 4; ++step) {
          const auto source = [&](std::int64_t first, std::int64_t count) {
            return data->read_sequential(first, count);
          };
          results[pack ? 1 : 0].push_back(engine.step(source, data->num_sequential_targets(0, rows), 1e-3));
        }
      });
    }
    for (std::size_t step = 0; step < 4; ++step) {
      const StepResult &padded = results[0][step], &packed = results[1][step];
      EXPECT_NEAR(packed.loss, padded.loss, 1e-6 * padded.loss) << step;
      EXPECT_NEAR(packed.grad_norm, padded.grad_norm, 1e-5 * padded.grad_norm) << step;
    }
    EXPECT_LT(results[0].back().loss, results[0].front().loss);
  }
}

}  // namespace
}  // namespace trireme
