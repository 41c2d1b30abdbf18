// A GPT trained in a pipeline of threads, in any layout, and its results: for tests that compare layouts.
#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "parallel/comm/local.h"
#include "parallel/run/engine.h"
#include "tests/support/exact_memory.h"
#include "tests/support/tiny_gpt.h"

namespace trireme::testing {

inline GptConfig pipeline_gpt_config() {
  GptConfig config = tiny_gpt_config();
  config.layers = 6;
  config.dropout = 0.1f;
  return config;
}

struct PipelineLayout {
  int stages = 1;
  int data = 1;
  PipelineSchedule schedule = PipelineSchedule::kOneForwardOneBackward;
  int chunks = 1;
  int zero = 0;
  int recompute = 0;
  bool tied = true;
  std::vector<int> cut;
  Precision precision;
  std::int64_t group_min_bytes = 0;
  GptConfig gpt = pipeline_gpt_config();
  std::int64_t global_batch = 16, micro_batch = 2;
  bool accumulate_unsharded = false, keep_gathered = false;
  int prefetch = 1;
  int tensor = 1;
  bool sequence = false;

  int ranks() const { return stages * data * tensor; }
  GptConfig model() const {
    GptConfig config = gpt;
    config.tied = tied;
    return config;
  }
  std::string to_string() const {
    return fmt::format("{} stages x {} ranks, {}, {} chunk(s), zero {}{}{}, recompute {}, prefetch {}, {}{}",
                       stages, data, name(schedule), chunks, zero, accumulate_unsharded ? ", unsharded" : "",
                       keep_gathered ? ", kept gathered" : "", recompute, prefetch, tied ? "tied" : "untied",
                       cut.empty() ? "" : ", uneven") +
           (tensor > 1 ? fmt::format(", {} tensor ranks", tensor) : "") + (sequence ? ", sequence" : "");
  }
  EngineOptions options() const {
    const Shape tokens{gpt.seq_len};
    return {.global_batch = global_batch,
            .micro_batch = micro_batch,
            .seed = 9,
            .optimizer = {.weight_decay = 0.1f},
            .grad_clip = 0.7f,
            .layout = {.tensor = tensor,
                       .sequence = sequence,
                       .pipeline = stages,
                       .schedule = schedule,
                       .chunks = chunks,
                       .cut = cut,
                       .zero = static_cast<ZeroStage>(zero),
                       .accumulate_unsharded = accumulate_unsharded,
                       .keep_gathered = keep_gathered,
                       .prefetch_depth = prefetch,
                       .group_min_bytes = group_min_bytes,
                       .recompute_every = recompute},
            .sample = SampleSpec{.input = tokens, .target = tokens},
            .precision = precision};
  }
};

/// Continues training until `to_step` steps are done; returns the last result.
inline StepResult train(Engine& engine, const PipelineLayout& layout, std::int64_t to_step) {
  StepResult result;
  while (engine.steps_done() < to_step) {
    result = engine.step(
        token_source(layout.gpt.vocab, layout.gpt.seq_len, engine.steps_done() * layout.global_batch),
        layout.global_batch * layout.gpt.seq_len, 1e-2);
  }
  return result;
}

struct PipelineOutcome {
  std::uint64_t hash = 0;
  float loss = 0, grad_norm = 0, eval_loss = 0;
  bool operator==(const PipelineOutcome&) const = default;
};

inline PipelineOutcome outcome_of(Engine& engine, const PipelineLayout& layout, const StepResult& last) {
  return {.hash = engine.state_hash(),
          .loss = last.loss,
          .grad_norm = last.grad_norm,
          .eval_loss = engine.evaluate(token_source(layout.gpt.vocab, layout.gpt.seq_len, 777), 11,
                                       11 * layout.gpt.seq_len)};
}

/// Trains from the start in the predicted memory; all ranks must get the same numbers.
inline PipelineOutcome train_and_evaluate(const PipelineLayout& layout, std::int64_t steps) {
  std::vector<PipelineOutcome> outcomes(static_cast<std::size_t>(layout.ranks()));
  run_local_ranks(layout.ranks(), [&](const std::shared_ptr<Communicator>& comm) {
    const auto blocks = std::make_shared<const BlockList>(build_gpt(layout.model()));
    Engine engine(blocks, comm, with_predicted_memory(blocks, layout.options(), *comm));
    const StepResult last = train(engine, layout, steps);
    outcomes[static_cast<std::size_t>(comm->rank())] = outcome_of(engine, layout, last);
  });
  for (const PipelineOutcome& outcome : outcomes) EXPECT_TRUE(outcome == outcomes[0]) << layout.to_string();
  return outcomes[0];
}

}  // namespace trireme::testing
