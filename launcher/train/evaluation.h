// The loss of a model over a data set, and how often it is right.
#pragma once

#include <memory>

#include "launcher/config/config.h"
#include "launcher/train/metrics.h"
#include "parallel/run/engine.h"

namespace trireme {

struct EvaluationOptions {
  std::shared_ptr<const Dataset> dataset;
  std::int64_t num_samples = 0;  // the first ones
  int workers = 1;               // threads that read ahead
  Weights weights = Weights::kParameters;
  bool counts_top_k = false;  // of the classes, or of the next tokens
};

/// The samples of `data` that an evaluation of the job reads, one by one.
EvaluationOptions evaluation_of(const JobConfig& config, std::shared_ptr<const Dataset> data);

/// Throws Error(kInvalidInput) where none of them has a target, as where few tokens are masked.
void check_has_targets(const EvaluationOptions& evaluation);

/// Collective. The same figures on every rank and layout.
EvalMetrics evaluate(Engine& engine, const EvaluationOptions& options);

}  // namespace trireme
