#include "launcher/measured_cut.h"

#include <fmt/core.h>

#include "launcher/agreement.h"
#include "launcher/output_folder.h"
#include "parallel/stage_cut.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

BlockProfile profile_of(const JobConfig& config, const CutMeasurement& measurement) {
  if (std::filesystem::exists(measurement.file)) {
    BlockProfile known = read_profile(measurement.file);
    const bool same_place =
        known.device == to_string(measurement.device) && known.threads == measurement.threads;
    if (same_place && describe_mismatch(known, config).empty()) return known;
  }
  prepare_output_folder(measurement.file.parent_path());
  const BlockProfile profile = measure_profile(config, measurement.device, measurement.threads);
  write_text_file(measurement.file, to_json(profile));
  return profile;
}

}  // namespace

std::string measured_cut(const JobConfig& config, const BlockProfile& profile) {
  const auto num_stages = static_cast<int>(config.parallel.pipeline * config.parallel.chunks);
  const StageCut cut = cut_evenly({.blocks = time_costs(profile.blocks)}, num_stages);
  std::string text;
  for (int stage = 1; stage < num_stages; ++stage) {
    text += fmt::format("{}{}", stage == 1 ? "" : ", ", cut.first(stage));
  }
  return text;
}

JobConfig with_measured_cut(JobConfig config, Communicator& comm, const CutMeasurement& measurement) {
  if (config.parallel.pipeline_cut != "measured" || config.parallel.pipeline == 1) return config;
  std::string cut;
  run_stage(comm, [&] {
    if (comm.rank() == 0) cut = measured_cut(config, profile_of(config, measurement));
  });
  config.parallel.pipeline_cut = text_of_rank(comm, 0, cut);
  return config;
}

}  // namespace trireme
