// The keys of [parallel] that are the layout of ranks: what parallel.layout = "auto" decides.
#pragma once

#include <string>
#include <vector>

#include "launcher/config/config_keys.h"

namespace trireme {

bool is_layout_key(const ConfigKey& key);

/// True for a key of the layout that the job leaves to the search.
bool is_left_open(const JobConfig& job, const ConfigKey& key);

/// The keys of the layout that the search keeps: "parallel.pipeline = 2".
std::vector<std::string> describe_fixed(const JobConfig& job);

/// What a settled layout has other than the defaults, as keys: "parallel.pipeline = 2, parallel.zero = 1".
std::string describe_layout(const JobConfig& job);

/// Gives the keys of the layout their defaults.
void clear_layout(JobConfig& job);

}  // namespace trireme
