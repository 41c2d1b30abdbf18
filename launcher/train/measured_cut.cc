#include "launcher/train/measured_cut.h"

#include "launcher/train/output_folder.h"
#include "parallel/foresee/block_times.h"

namespace trireme {

PipelineCut measured_cut(const JobConfig& config, const BlockProfile& profile, const CutMemory& memory) {
  CutSearch search(config, time_costs(profile.blocks), memory);
  const auto cut = search.fastest_that_fits();
  return listed(cut ? *cut : search.closest());
}

BlockProfile known_or_measured(const JobConfig& config, const CutMeasurement& measurement) {
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

}  // namespace trireme
