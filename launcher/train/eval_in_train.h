// Refuses evaluation data that the training data holds.
#pragma once

#include "launcher/train/data_module.h"

namespace trireme {

/// Compares the files of data.eval with those of data.train (see find_shared_files). Throws
/// Error(kInvalidInput) naming one that both have, unless data.allow_eval_in_train says that it is meant.
/// Copies of less than 1 % of the files are a warning.
void check_eval_not_in_train(const JobConfig& config, const JobData& data);

}  // namespace trireme
