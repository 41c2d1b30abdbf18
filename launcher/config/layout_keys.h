// The keys of [parallel] that are the layout of ranks: one for each field of Layout.
#pragma once

#include <string>
#include <vector>

#include "launcher/config/config_keys.h"
#include "parallel/layout/layout.h"

namespace trireme {

/// The field of Layout whose key, parallel.pipeline_cut, names a rule or a list: PipelineCut.
inline constexpr std::string_view kCutField = "pipeline_cut";

/// The key of a field that is not kCutField. "auto" is a value where the field may be chosen by memory.
ConfigKey layout_key(const LayoutField& field);

bool is_layout_key(const ConfigKey& key);

/// True for a key of the layout that the job leaves to the search.
bool is_left_open(const JobConfig& job, const ConfigKey& key);

/// The keys of the layout that the search keeps: "parallel.pipeline = 2".
std::vector<std::string> describe_fixed(const JobConfig& job);

/// The keys of a settled layout that differ from their defaults: "parallel.pipeline = 2, parallel.zero = 1".
std::string describe_layout(const JobConfig& job);

/// Gives the keys of the layout their defaults.
void clear_layout(JobConfig& job);

}  // namespace trireme
