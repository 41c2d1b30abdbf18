// Reads the micro-batches of one rank ahead while it computes.
#pragma once

#include <memory>

#include "parallel/layout/batch_layout.h"
#include "parallel/run/execution_input.h"
#include "runtime/data/prefetch.h"

namespace trireme {

class TrainingBatches {
 public:
  struct Options {
    std::shared_ptr<const Dataset> dataset;
    BatchLayout batch;
    int data_rank = 0;
    std::int64_t first_step = 0;    // counted from 0
    std::int64_t first_sample = 0;  // of the first step, in training order
    std::int64_t num_steps = 0;     // of the whole run: reading stops there
    int workers = 1;                // reader threads; 0: batches are read on request
    std::int64_t sample_bytes = 0;  // inputs in host memory: large samples are not read far ahead
  };
  explicit TrainingBatches(const Options& options);

  /// For Engine::step: the rank's micro-batches, step by step.
  BatchSource source();
  /// Milliseconds that the source waited for data since the last call.
  double take_wait_ms() { return prefetcher_.take_wait_ms(); }

 private:
  Prefetcher prefetcher_;
};

}  // namespace trireme
