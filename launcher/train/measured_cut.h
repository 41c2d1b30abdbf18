// parallel.pipeline_cut = "measured": the cut into stages whose slowest one is fastest on this machine.
#pragma once

#include <filesystem>

#include "launcher/config/config.h"
#include "launcher/report/block_profile.h"
#include "launcher/train/cut_search.h"
#include "runtime/base/device.h"

namespace trireme {

/// The cut of a resolved job by the times of `profile`, as parallel.pipeline_cut lists it: "3, 6"; see
/// CutSearch::fastest_that_fits(). Where none is found to fit, the one that comes closest, with a warning
/// that names it; the check of the job's memory then refuses it.
PipelineCut measured_cut(const JobConfig& config, const BlockProfile& profile, const CutMemory& memory);

/// What was measured for a job before, in `file`, where it was measured on `device` with as many threads;
/// else measures, and keeps it there.
struct CutMeasurement {
  Device device;
  int threads = 1;
  std::filesystem::path file;
};
BlockProfile known_or_measured(const JobConfig& config, const CutMeasurement& measurement);

}  // namespace trireme
