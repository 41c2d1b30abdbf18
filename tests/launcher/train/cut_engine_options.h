// Engine options of a job whose blocks nobody has built yet.
#pragma once

#include "launcher/train/build.h"

namespace trireme {

inline EngineOptions cut_engine_options(const JobConfig& config) {
  return engine_options(config, *build_blocks(config.model));
}

}  // namespace trireme
