// Samples in memory of the caller, as the engine reads them.
#pragma once

#include <cstdint>

#include "launcher/config/config.h"
#include "parallel/layout/sample_spec.h"
#include "parallel/run/execution_input.h"

namespace trireme {

/// Row-major arrays, which outlive the call that they are passed to.
struct Samples {
  const void* inputs = nullptr;   // [B, ...] of SampleSpec::input
  const void* targets = nullptr;  // [B, ...] of SampleSpec::target; null: none, as for logits
  std::int64_t count = 0;         // B
};

/// Throws Error(kUnsupported) if the job's samples have more than inputs and targets.
void check_plain(const SampleSpec& spec);
/// The job's samples as Python passes them: any number of a sample's tokens may have targets.
SampleSpec given_samples(SampleSpec spec);

/// Throws Error(kInvalidInput) for no samples, and for tokens and labels that the model does not have. A
/// target of -1 does not count.
void check_samples(const SampleSpec& spec, const ModelSection& model, const Samples& samples);

/// Targets of a sample, including values of -1.
std::int64_t targets_per_sample(const SampleSpec& spec);

/// Targets that count in the loss.
std::int64_t num_targets(const SampleSpec& spec, const Samples& samples);

/// Copies micro-batches of the samples.
BatchSource source_of(const SampleSpec& spec, const Samples& samples);

}  // namespace trireme
