// Refuses evaluation data that is also in the training data.
#pragma once

#include "launcher/data/data_module.h"

namespace trireme {

/// Compares the files of data.eval with the files of data.train (see find_shared_files). Throws
/// Error(kInvalidInput) naming a file that both contain, unless data.allow_eval_in_train is set. If less than
/// 1 % of the files are copies, only warns.
void check_eval_not_in_train(const JobConfig& config, const JobData& data);

}  // namespace trireme
