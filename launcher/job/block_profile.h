// Times of a job's blocks on this machine, measured once and stored in a JSON file.
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
  // The machine it was measured on.
  std::string device;
  int threads = 0;

  std::vector<BlockTime> blocks;
};

/// Measures the blocks of a resolved job with synthetic samples; see measure_block_times().
BlockProfile measure_profile(const JobConfig& config, const Device& device, int threads);

/// Describes how the profile's model, micro-batch or precision differ from the job's; empty if they agree.
std::string describe_mismatch(const BlockProfile& profile, const JobConfig& config);

/// Describes how the profile's machine differs from the machine of the job's ranks; empty if they agree.
std::string describe_other_place(const BlockProfile& profile, const Device& device, int threads);

std::string to_json(const BlockProfile& profile);
/// Throws Error(kInvalidInput) naming the file if it cannot be read or is not a profile, or naming a block
/// whose times are not valid.
BlockProfile read_profile(const std::filesystem::path& file);

}  // namespace trireme
