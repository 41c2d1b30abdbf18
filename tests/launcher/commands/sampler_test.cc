#include "launcher/commands/sampler.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "models/llama.h"
#include "models/lstm.h"
#include "parallel/comm/local.h"
#include "runtime/base/error.h"
#include "runtime/key_value_cache.h"
#include "tests/support/tiny_gpt.h"

namespace trireme {
namespace {

// Probabilities 0.1, 0.6, 0.3.
const std::array kLogits = {std::log(0.1f), std::log(0.6f), std::log(0.3f)};

TEST(Sampler, ChoosesByProbability) {
  // Most likely first: token 1 up to 0.6, then token 2 up to 0.9, then token 0.
  const SamplingOptions options{.temperature = 1.0};
  EXPECT_EQ(choose_token(kLogits, options, 0.0), 1);
  EXPECT_EQ(choose_token(kLogits, options, 0.59), 1);
  EXPECT_EQ(choose_token(kLogits, options, 0.61), 2);
  EXPECT_EQ(choose_token(kLogits, options, 0.89), 2);
  EXPECT_EQ(choose_token(kLogits, options, 0.91), 0);
  EXPECT_EQ(choose_token(kLogits, options, std::nextafter(1.0, 0.0)), 0);
}

TEST(Sampler, TemperatureSharpens) {
  // Squared and normalised: 0.01, 0.36, 0.09 of 0.46.
  const SamplingOptions options{.temperature = 0.5};
  EXPECT_EQ(choose_token(kLogits, options, 0.36 / 0.46 - 0.01), 1);
  EXPECT_EQ(choose_token(kLogits, options, 0.36 / 0.46 + 0.01), 2);
  EXPECT_EQ(choose_token(kLogits, {.temperature = 0.0}, 0.99), 1);
}

TEST(Sampler, TopKDropsTheTail) {
  EXPECT_EQ(choose_token(kLogits, {.temperature = 1.0, .top_k = 1}, 0.99), 1);
  EXPECT_EQ(choose_token(kLogits, {.temperature = 1.0, .top_k = 2}, 0.65), 1);  // 0.6 of 0.9
  EXPECT_EQ(choose_token(kLogits, {.temperature = 1.0, .top_k = 2}, 0.99), 2);
  EXPECT_EQ(choose_token(kLogits, {.temperature = 1.0, .top_k = 99}, 0.99), 0);
}

TEST(Sampler, TopPKeepsTheFewestThatReachIt) {
  EXPECT_EQ(choose_token(kLogits, {.temperature = 1.0, .top_p = 0.5}, 0.99), 1);  // only the 0.6
  EXPECT_EQ(choose_token(kLogits, {.temperature = 1.0, .top_p = 0.7}, 0.65), 1);  // 0.6 of 0.9
  EXPECT_EQ(choose_token(kLogits, {.temperature = 1.0, .top_p = 0.7}, 0.68), 2);
  EXPECT_EQ(choose_token(kLogits, {.temperature = 1.0, .top_p = 0.95}, 0.99), 0);  // all three
  EXPECT_EQ(choose_token(kLogits, {.temperature = 1.0, .top_k = 2, .top_p = 0.95}, 0.99), 2);
  EXPECT_EQ(choose_token(kLogits, {.temperature = 1.0, .top_p = 1e-9}, 0.99), 1);
}

TEST(Sampler, EqualLogitsGoByTokenId) {
  const std::array<float, 3> equal = {2, 2, 2};
  EXPECT_EQ(choose_token(equal, {.temperature = 0.0}, 0.5), 0);
  EXPECT_EQ(choose_token(equal, {.temperature = 1.0, .top_k = 2}, 0.75), 1);
}

TEST(Sampler, DamagedParametersAreNoticed) {
  const std::array<float, 2> infinite = {std::numeric_limits<float>::infinity(), 0};
  EXPECT_THROW(choose_token(infinite, {}, 0.5), Error);
}

class SamplerEngine : public ::testing::Test {
 protected:
  SamplingOptions options(std::int64_t num_tokens, std::uint64_t seed) const {
    return {.num_tokens = num_tokens,
            .context = config_.seq_len,
            .vocab = config_.vocab,
            .temperature = 1.0,
            .seed = seed};
  }

  GptConfig config_ = testing::tiny_gpt_config();
  Engine engine_{build_gpt(config_), LocalWorld(1).communicator(0), {.seed = 3}};
};

TEST_F(SamplerEngine, SeedDecides) {
  const auto first = generate(engine_, {1, 2, 3}, options(30, 1));
  EXPECT_EQ(first.size(), 30u);
  EXPECT_EQ(generate(engine_, {1, 2, 3}, options(30, 1)), first);
  EXPECT_NE(generate(engine_, {1, 2, 3}, options(30, 2)), first);
  for (const std::int32_t token : first) {
    EXPECT_GE(token, 0);
    EXPECT_LT(token, config_.vocab);
  }
}

// Vocabularies are padded to round numbers, and no text contains the ids beyond the tokenizer's.
TEST_F(SamplerEngine, PaddingOfTheVocabularyIsNeverDrawn) {
  SamplingOptions few = options(40, 1);
  few.choices = 5;
  for (const std::int32_t token : generate(engine_, {1, 2, 3}, few)) EXPECT_LT(token, 5);
}

TEST_F(SamplerEngine, GenerationCanBeContinued) {
  // Greedy, so that the random draws do not matter; 30 tokens exceed the context of 16.
  SamplingOptions greedy = options(30, 1);
  greedy.temperature = 0;
  const auto whole = generate(engine_, {5}, greedy);
  std::vector<std::int32_t> prompt = {5};
  prompt.insert(prompt.end(), whole.begin(), whole.begin() + 20);
  greedy.num_tokens = 10;
  EXPECT_EQ(generate(engine_, prompt, greedy), std::vector<std::int32_t>(whole.begin() + 20, whole.end()));
}

// The logits of the last token of a prompt must not depend on the padding behind it.
TEST_F(SamplerEngine, PaddingChangesNothing) {
  SamplingOptions greedy = options(1, 1);
  greedy.temperature = 0;
  const std::vector<std::int32_t> prompt = {4, 9, 23, 1, 50};
  HostBatch batch{.input_shape = {1, 5}, .input_dtype = DType::kInt32};
  batch.inputs.resize(prompt.size() * sizeof(std::int32_t));
  std::memcpy(batch.inputs.data(), prompt.data(), batch.inputs.size());
  const Tensor logits = engine_.infer(batch);
  const auto last = engine_.context().to_host(logits.slice(4 * config_.vocab, {config_.vocab}));
  EXPECT_EQ(generate(engine_, prompt, greedy)[0], choose_token(last, greedy, 0.0));
}

TEST_F(SamplerEngine, TopPOutOfRangeIsRefused) {
  for (const double top_p : {0.0, -0.5, 1.5, std::nan("")}) {
    SamplingOptions wrong = options(1, 1);
    wrong.top_p = top_p;
    EXPECT_THROW(generate(engine_, {1}, wrong), Error) << top_p;
  }
}

TEST_F(SamplerEngine, ACallerEndsTheText) {
  const auto whole = generate(engine_, {1, 2, 3}, options(10, 1));
  const auto part = generate(engine_, {1, 2, 3}, options(10, 1),
                             [](std::span<const std::int32_t> so_far) { return so_far.size() < 4; });
  EXPECT_EQ(part, std::vector<std::int32_t>(whole.begin(), whole.begin() + 4));
}

// Also beyond the context of 16.
void expect_same_tokens_with_the_cache(Engine& engine, const SamplingOptions& options) {
  for (const std::vector<std::int32_t>& prompt :
       {std::vector<std::int32_t>{7}, {1, 2, 3, 4, 5, 6, 7, 8, 9}, std::vector<std::int32_t>(20, 3)}) {
    SamplingOptions plain = options;
    plain.cache = false;
    EXPECT_EQ(generate(engine, prompt, options), generate(engine, prompt, plain)) << prompt.size();
  }
}

TEST_F(SamplerEngine, TheCacheGivesTheTokensOfWithout) {
  for (const PrecisionMode mode :
       {PrecisionMode::kFp32, PrecisionMode::kTf32, PrecisionMode::kFp16, PrecisionMode::kBf16}) {
    const EngineOptions how{.seed = 3, .precision = Precision(mode)};
    Engine gpt(build_gpt(config_), LocalWorld(1).communicator(0), how);
    expect_same_tokens_with_the_cache(gpt, options(30, 5));
    LlamaConfig shape{.layers = 2, .hidden = 32, .heads = 4, .kv_heads = 2, .ffn = 64, .vocab = 61};
    shape.seq_len = config_.seq_len;
    Engine llama(build_llama(shape), LocalWorld(1).communicator(0), how);
    expect_same_tokens_with_the_cache(llama, options(30, 5));
  }
}

// An LSTM has no maximum length: its state holds the whole text.
TEST_F(SamplerEngine, AnLstmKeepsItsState) {
  for (const PrecisionMode mode : {PrecisionMode::kFp32, PrecisionMode::kFp16, PrecisionMode::kBf16}) {
    Engine lstm(build_lstm({.hidden = 32, .embedding_size = 9, .vocab = config_.vocab, .seq_len = 4}),
                LocalWorld(1).communicator(0), {.seed = 3, .precision = Precision(mode)});
    SamplingOptions endless = options(50, 5);
    endless.context = std::numeric_limits<std::int64_t>::max();
    expect_same_tokens_with_the_cache(lstm, endless);
  }
}

// The last token's logits from pieces of 1, 4 and 3 tokens.
TEST_F(SamplerEngine, LogitsOfPiecesAreThoseOfTheWhole) {
  const std::vector<std::int32_t> tokens = {4, 9, 23, 1, 50, 17, 3, 3};
  const auto batch_of = [&](std::size_t first, std::size_t count) {
    HostBatch batch{.input_shape = {1, static_cast<std::int64_t>(count)}, .input_dtype = DType::kInt32};
    batch.inputs.resize(count * sizeof(std::int32_t));
    std::memcpy(batch.inputs.data(), tokens.data() + first, batch.inputs.size());
    return batch;
  };
  const auto last_row = [&](const Tensor& logits) {
    return engine_.context().to_host(logits.slice(logits.num_elems() - config_.vocab, {config_.vocab}));
  };
  KeyValueCache cache(1, config_.seq_len);
  engine_.infer(batch_of(0, 1), &cache);
  engine_.infer(batch_of(1, 4), &cache);
  const auto in_pieces = last_row(engine_.infer(batch_of(5, 3), &cache));
  EXPECT_EQ(cache.length(), 8);
  const auto whole = last_row(engine_.infer(batch_of(0, 8)));
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(in_pieces[i], whole[i], 1e-5) << i;
  cache.clear();
  const auto again = last_row(engine_.infer(batch_of(0, 8), &cache));
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(again[i], whole[i], 1e-5) << i;
}

TEST_F(SamplerEngine, AFullCacheRefusesMore) {
  KeyValueCache cache(1, 3);
  HostBatch batch{.input_shape = {1, 2}, .input_dtype = DType::kInt32};
  batch.inputs.resize(2 * sizeof(std::int32_t));
  engine_.infer(batch, &cache);
  EXPECT_THROW(engine_.infer(batch, &cache), Error);
}

}  // namespace
}  // namespace trireme
