// A GPT trained by any optimizer, with or without averages of its weights, in any layout of threads.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/support/pipeline_layout.h"

namespace trireme::testing {

struct OptimizerJob {
  OptimizerConfig optimizer;
  OptimizerFactory own_optimizer;
  float ema = 0.0f;
  Precision precision;
  LossScaleConfig loss_scale;

  EngineOptions options(const PipelineLayout& layout) const;
};

/// Trains from the start and returns the state. Every rank's memory and traffic must equal the prediction.
PipelineOutcome train_job(const OptimizerJob& job, PipelineLayout layout, std::int64_t steps);

/// Expects every layout to reach the state of one rank.
void expect_equal_states(const OptimizerJob& job, const std::vector<PipelineLayout>& layouts);

/// Data ranks, pipelines and combinations: with unsharded state, or with every ZeRO stage.
std::vector<PipelineLayout> layouts_of_whole_states();
std::vector<PipelineLayout> layouts_of_shards();

/// Values by full name, on one rank.
using Values = std::map<std::string, std::vector<float>>;
Values masters_of(const Engine& engine);
Values averages_of(const Engine& engine);
/// State of the optimizer, by the index of ParamStore::state().
Values states_of(const Engine& engine, int index);

/// The state before and after a step's update, and the gradients as the optimizer read them: on one rank,
/// without clipping.
struct ObservedStep {
  Values before, after, gradients;
};
ObservedStep observe_step(Engine& engine, const PipelineLayout& layout, double lr);

}  // namespace trireme::testing
