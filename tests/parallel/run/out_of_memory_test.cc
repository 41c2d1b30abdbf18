// The error of an engine without enough memory: the same on every backend, tested on the CPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "parallel/comm/local.h"
#include "parallel/run/engine.h"
#include "runtime/base/error.h"
#include "tests/support/tiny_gpt.h"

namespace trireme {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr std::int64_t kBatch = 4;

EngineOptions options(std::optional<std::int64_t> limit) {
  return {.memory_limit = limit, .global_batch = kBatch, .micro_batch = kBatch};
}

std::int64_t train_a_step(std::optional<std::int64_t> limit) {
  const GptConfig config = testing::tiny_gpt_config();
  Engine engine(build_gpt(config), LocalWorld(1).communicator(0), options(limit));
  return engine.step(testing::token_source(config.vocab, config.seq_len, 0), kBatch * config.seq_len, 1e-2)
      .memory.peak_total;
}

std::string failure(std::int64_t limit) {
  try {
    train_a_step(limit);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
    return error.what();
  }
}

TEST(OutOfMemory, AByteTooFewNamesActionBlockCategoriesAndHolders) {
  const std::int64_t needed = train_a_step(std::nullopt);
  EXPECT_EQ(train_a_step(needed), needed);
  const std::string message = failure(needed - 1);
  EXPECT_THAT(message,
              ContainsRegex("^rank 0, step 1, action [0-9]+ \\(.*\\) of block '.*': out of memory on cpu"));
  EXPECT_THAT(message, ContainsRegex("alive now: parameters [0-9.]+ KiB, gradients [0-9.]+ "));
  EXPECT_THAT(message, ContainsRegex("the largest: [a-z]+ of [a-z0-9.]+ \\([a-z_]+\\) [0-9.]+ KiB, "));
  EXPECT_THAT(message, ContainsRegex("(optimizer|parameters) of blocks\\.[01] \\(param_store\\)"));
}

TEST(OutOfMemory, ParametersAloneAreTooMuch) {
  EXPECT_THAT(failure(20'000), HasSubstr("(param_store) do not fit under the limit of 19.53 KiB"));
}

}  // namespace
}  // namespace trireme
