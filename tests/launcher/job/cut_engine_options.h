// Engine options of a job, for tests without a block list.
#pragma once

#include "launcher/job/build.h"

namespace trireme {

inline EngineOptions cut_engine_options(const JobConfig& config) {
  return engine_options(config, *build_blocks(config.model));
}

}  // namespace trireme
