// From a job to the parts that the engine takes: blocks, data sets, options.
#pragma once

#include <memory>
#include <vector>

#include "launcher/config/config.h"
#include "launcher/train/data_module.h"
#include "parallel/foresee/predict.h"
#include "parallel/run/engine.h"
#include "runtime/optim/lr_schedule.h"

namespace trireme {

/// Fills in what a job leaves to `model.size` and to the training data: the numbers of [model]. Throws
/// Error(kInvalidInput) when the vocabulary is not known from either.
JobConfig resolve(JobConfig config);

// Of a resolved job:

std::shared_ptr<const BlockList> build_blocks(const ModelSection& model);

/// The policy of [precision], checked by check_config().
Precision build_precision(const PrecisionSection& section);

/// Layout::cut of parallel.pipeline_cut. Throws Error(kInvalidInput), naming the
/// key, for a cut that cannot be.
std::vector<int> pipeline_cut(const JobConfig& config, const BlockList& blocks);

/// For the CPU: choose_device() knows better. `threads` and `memory_limit` are those of the job; threads 0
/// stands for 1, and "auto" for what needs least memory (see with_accumulation). `blocks` of build_blocks().
EngineOptions engine_options(const JobConfig& config, const BlockList& blocks);

/// The layout of a step's samples over `num_ranks` ranks. Throws Error(kInvalidInput) where stages or
/// micro-batches cannot share them equally, saying what would do.
BatchLayout batch_layout(const JobConfig& config, int num_ranks);

/// The job as foresight takes it; `blocks` of build_blocks().
PlannedJob planned_job(const JobConfig& config, std::shared_ptr<const BlockList> blocks, int num_ranks);

LrSchedule lr_schedule(const JobConfig& config);

/// The shapes of one training sample.
SampleSpec sample_spec(const JobConfig& config);

/// Opens the data. With `read_whole`, reads all shards to be sure that no token id is beyond the vocabulary,
/// and takes their fingerprints. Throws Error(kInvalidInput) naming the key and the file.
JobData open_data(const JobConfig& config, bool read_whole);

/// Only data.eval, which must not be empty unless data.kind is "synthetic". Throws as open_data().
JobData open_eval_data(const JobConfig& config, bool read_whole);

/// Threads of a rank that read data ahead (data.workers), where it computes with `threads`.
int num_data_workers(const JobConfig& config, int threads);

}  // namespace trireme
