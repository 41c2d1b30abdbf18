// The keys that name parameters by patterns, and whether a model has any that are called so.
#pragma once

#include <string>
#include <vector>

#include "launcher/config/config.h"
#include "parallel/layout/parameter_rules.h"

namespace trireme {

/// EngineOptions::rules of a job.
ParameterRules parameter_rules(const JobConfig& config);

/// The one of `names`, which are not empty, that a pattern without a match most likely meant.
std::string nearest_parameter(const std::string& pattern, const std::vector<std::string>& names);

/// Throws Error(kInvalidInput) for a pattern that matches no parameter, naming the key and the parameter
/// whose name is nearest, and where train.freeze leaves nothing to train.
void check_patterns(const JobConfig& config, const BlockList& blocks);

/// Throws Error(kInvalidInput) where a job has other adapters, or trains other parameters, than the run that
/// made the checkpoint `where`: what is trained has a state there, and nothing else has. `blocks` are the
/// job's.
void check_same_training(const JobConfig& before, const JobConfig& now, const BlockList& blocks,
                         const std::string& where);

/// Throws Error(kInvalidInput) where Muon has no matrix to update.
void check_matrices(const JobConfig& config, const BlockList& blocks);

}  // namespace trireme
