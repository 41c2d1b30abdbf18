// A GPT trained by any optimizer, with averages of its weights or without, in any layout of threads.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/support/pipeline_layout.h"

namespace trireme::testing {

struct OptimizerJob {
  OptimizerConfig optimizer;
  float ema = 0.0f;
  Precision precision;
  LossScaleConfig loss_scale;

  EngineOptions options(const PipelineLayout& layout) const;
};

/// Trains from the start; the state afterwards. Every rank's memory and traffic must be those predicted.
PipelineOutcome train_job(const OptimizerJob& job, PipelineLayout layout, std::int64_t steps);

/// Expects the state of one rank from every layout.
void expect_equal_states(const OptimizerJob& job, const std::vector<PipelineLayout>& layouts);

/// Data ranks, pipelines and their mixtures; of every ZeRO stage, or with whole states alone.
std::vector<PipelineLayout> layouts_of_whole_states();
std::vector<PipelineLayout> layouts_of_shards();

/// By full name. On one rank.
using Values = std::map<std::string, std::vector<float>>;
Values masters_of(const Engine& engine);
Values averages_of(const Engine& engine);
/// Of the optimizer, by the index of ParamStore::state().
Values states_of(const Engine& engine, int index);

/// What a step's update started from and came to, with the gradients as the optimizer read them: on one rank,
/// without clipping.
struct ObservedStep {
  Values before, after, gradients;
};
ObservedStep observe_step(Engine& engine, const PipelineLayout& layout, double lr);

}  // namespace trireme::testing
