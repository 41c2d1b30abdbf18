// Builds the engine's inputs from a job: blocks, data sets, options.
#pragma once

#include <memory>
#include <vector>

#include "launcher/config/config.h"
#include "launcher/data/data_module.h"
#include "parallel/foresee/predict.h"
#include "parallel/run/engine.h"
#include "runtime/optim/lr_schedule.h"

namespace trireme {

/// Fills in the fields of [model] that `model.size` or the training data determine. Throws
/// Error(kInvalidInput) if neither gives the vocabulary.
JobConfig resolve(JobConfig config);

// For a resolved job:

std::shared_ptr<const BlockList> build_blocks(const ModelSection& model);

/// The policy of [precision], checked by check_config().
Precision build_precision(const PrecisionSection& section);

/// Layout::cut for parallel.pipeline_cut. Throws Error(kInvalidInput), naming the key, for an impossible cut.
std::vector<int> pipeline_cut(const JobConfig& config, const BlockList& blocks);

/// Options for the CPU; choose_device() changes them for other devices. `threads` and `memory_limit` come
/// from the job; threads = 0 becomes 1. "auto" becomes the choice with the least memory (see
/// with_accumulation). `blocks` are from build_blocks().
EngineOptions engine_options(const JobConfig& config, const BlockList& blocks);

/// Distributes a step's samples over `num_ranks` ranks. Throws Error(kInvalidInput), with valid numbers, if
/// stages or micro-batches cannot be divided equally.
BatchLayout batch_layout(const JobConfig& config, int num_ranks);

/// The job in the form that predictions take; `blocks` are from build_blocks().
PlannedJob planned_job(const JobConfig& config, std::shared_ptr<const BlockList> blocks, int num_ranks);

LrSchedule lr_schedule(const JobConfig& config);

/// The shapes of one training sample.
SampleSpec sample_spec(const JobConfig& config);

/// Opens the data. With `read_whole`, reads all shards, checks that token ids are within the vocabulary, and
/// computes fingerprints. Throws Error(kInvalidInput) naming the key and the file.
JobData open_data(const JobConfig& config, bool read_whole);

/// Opens only data.eval, which must be set unless data.kind is "synthetic". Throws as open_data().
JobData open_eval_data(const JobConfig& config, bool read_whole);

/// Reader threads of a rank that computes with `threads` (data.workers).
int num_data_workers(const JobConfig& config, int threads);

}  // namespace trireme
