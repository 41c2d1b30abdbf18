// The keys of [parallel] that describe the layout: one for each field of Layout.
#pragma once

#include <string>
#include <vector>

#include "launcher/keys/config_keys.h"
#include "parallel/layout/layout.h"

namespace trireme {

/// The field of Layout whose key, parallel.pipeline_cut, has its own type: PipelineCut, a rule or a list.
inline constexpr std::string_view kCutField = "pipeline_cut";

/// The key of any field but kCutField. The key accepts "auto" if the field may be chosen by memory.
ConfigKey layout_key(const LayoutField& field);

bool is_layout_key(const ConfigKey& key);

/// True for a layout key that the job leaves to the search.
bool is_left_open(const JobConfig& job, const ConfigKey& key);

/// The layout keys that the search may not change: "parallel.pipeline = 2".
std::vector<std::string> describe_fixed(const JobConfig& job);

/// The layout keys that differ from their defaults: "parallel.pipeline = 2, parallel.zero = 1".
std::string describe_layout(const JobConfig& job);

/// Resets the layout keys to their defaults.
void clear_layout(JobConfig& job);

}  // namespace trireme
