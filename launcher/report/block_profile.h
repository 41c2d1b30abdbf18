// The times of a job's blocks on this machine, measured once and kept in a JSON file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "launcher/config/config.h"
#include "parallel/foresee/block_times.h"
#include "runtime/base/device.h"

namespace trireme {

struct BlockProfile {
  // The measured job.
  std::string model;  // name and shape: "gpt, 2 layers, 32 wide, ..."
  std::int64_t micro_batch = 0;
  std::string precision;
  // The place of measurement.
  std::string device;
  int threads = 0;

  std::vector<BlockTime> blocks;
};

/// Measures the blocks of a resolved job with samples made up; see measure_block_times().
BlockProfile measure_profile(const JobConfig& config, const Device& device, int threads);

/// The difference of a profile of another model, micro-batch or precision, in words; empty if it is the
/// job's.
std::string describe_mismatch(const BlockProfile& profile, const JobConfig& config);

/// The difference between the machine of the profile and that of the job's ranks, in words; empty if none.
std::string describe_other_place(const BlockProfile& profile, const Device& device, int threads);

std::string to_json(const BlockProfile& profile);
/// Throws Error(kInvalidInput) naming the file when it cannot be read or is no profile, and naming the block
/// when its times are no milliseconds.
BlockProfile read_profile(const std::filesystem::path& file);

}  // namespace trireme
