// How long the blocks of a job's model take on this machine, measured once and kept in a JSON file.
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
  // What was measured.
  std::string model;  // name and shape: "gpt, 2 layers, 32 wide, ..."
  std::int64_t micro_batch = 0;
  std::string precision;
  // Where.
  std::string device;
  int threads = 0;

  std::vector<BlockTime> blocks;
};

/// Measures the blocks of a resolved job with samples made up; see measure_block_times().
BlockProfile measure_profile(const JobConfig& config, const Device& device, int threads);

/// What a profile of another model, micro-batch or precision differs in, in words; empty where it is the
/// job's.
std::string describe_mismatch(const BlockProfile& profile, const JobConfig& config);

/// Whether the profile was measured where a rank of the job computes, in words; empty where it was.
std::string describe_other_place(const BlockProfile& profile, const Device& device, int threads);

std::string to_json(const BlockProfile& profile);
/// Throws Error(kInvalidInput) naming the file when it cannot be read or is no profile, and naming the block
/// when its times are no milliseconds.
BlockProfile read_profile(const std::filesystem::path& file);

}  // namespace trireme
