// Differences between two configurations: of ranks of one job, and of a run before and after a resume.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "launcher/config/config.h"
#include "parallel/comm/communicator.h"

namespace trireme {

/// Compares the resolved texts of all ranks. Empty if they agree; else one line for each rank and key that
/// differ from rank 0, with both values.
std::string describe_difference(std::span<const std::string> texts_by_rank);

/// Collective. Throws an AgreedError that names rank and key if the texts differ (see describe_difference).
void check_same_config(Communicator& comm, const std::string& resolved);

/// Changes of the mathematics when a run resumes: "optimizer.lr (0.1, now 0.2)" for each key of [model],
/// [data], [train], [optimizer] and [precision] that differs.
std::vector<std::string> describe_changes(const JobConfig& before, const JobConfig& now);

}  // namespace trireme
