// Evaluates a model on a data set: loss and accuracy.
#pragma once

#include <memory>

#include "launcher/config/config.h"
#include "launcher/observe/metrics.h"
#include "launcher/train/class_predictions.h"
#include "launcher/train/detection_results.h"
#include "parallel/run/engine.h"

namespace trireme {

struct EvaluationOptions {
  std::shared_ptr<const Dataset> dataset;
  std::int64_t num_samples = 0;  // the first samples of the data set
  int workers = 1;               // reader threads
  Weights weights = Weights::kParameters;
  bool counts_top_k = false;                // over the classes, or over the next tokens
  bool counts_answers = false;              // exact ones among the runs of targets; needs counts_top_k
  bool by_noise_band = false;               // instead: the mean loss of each tenth of the timesteps
  ClassPredictions* predictions = nullptr;  // records this rank's predictions; needs counts_top_k
  DetectionResults* detections = nullptr;   // filled with the detections of all ranks
};

/// The samples of `data` that an evaluation of the job reads, in the order of reading.
EvaluationOptions evaluation_of(const JobConfig& config, std::shared_ptr<const Dataset> data);

/// Throws Error(kInvalidInput) if no sample has a target, for example if few tokens are masked.
void check_has_targets(const EvaluationOptions& evaluation);

/// Collective. Returns the same values on every rank and for every layout.
EvalMetrics evaluate(Engine& engine, const EvaluationOptions& options);

}  // namespace trireme
