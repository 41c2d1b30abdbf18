// The keys that select parameters by patterns, and checks that each pattern matches one.
#pragma once

#include <string>
#include <vector>

#include "launcher/config/config.h"
#include "parallel/layout/parameter_rules.h"

namespace trireme {

/// EngineOptions::rules of a job.
ParameterRules parameter_rules(const JobConfig& config);

/// The name in `names`, which is not empty, that a pattern without a match most likely meant.
std::string nearest_parameter(const std::string& pattern, const std::vector<std::string>& names);

/// Throws Error(kInvalidInput) for a pattern without a match, naming the key and the nearest parameter name,
/// and if train.freeze leaves no parameter to train.
void check_patterns(const JobConfig& config, const BlockList& blocks);

/// Throws Error(kInvalidInput) if a job has other adapters, or trains other parameters, than the run that
/// wrote the checkpoint `where`: only trained parameters have optimizer state there. `blocks` are the job's.
void check_same_training(const JobConfig& before, const JobConfig& now, const BlockList& blocks,
                         const std::string& where);

/// Throws Error(kInvalidInput) if Muon has no matrix to update.
void check_matrices(const JobConfig& config, const BlockList& blocks);

}  // namespace trireme
