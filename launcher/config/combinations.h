// Combinations with pipeline stages, and those that do not work yet: one table, from which the configuration
// check and the README are made.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "launcher/config/config.h"

namespace trireme {

struct Combination {
  std::string with;                               // "`zero` = 1, 2, 3"
  std::function<bool(const JobConfig&)> refused;  // null: works
  std::string remark;                             // why not and what to do instead; or how it works
};

/// All of them, for parallel.pipeline of 2 or more.
std::span<const Combination> pipeline_combinations();

/// Throws Error(kUnsupported) with the reason where a job with a pipeline asks for what does not go with one.
void check_combinations(const JobConfig& config);

/// The table of README.md, as Markdown.
std::string combinations_reference();

}  // namespace trireme
