// A small job with checkpoint.partner, and a helper that damages its files.
#pragma once

#include <filesystem>
#include <fstream>

#include "launcher/config/config.h"

namespace trireme::testing {

inline void damage(const std::filesystem::path& file) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(-1, std::ios::end);
  stream.put('\x55');
}

inline JobConfig partner_job() {
  JobConfig config{.data = {.kind = DataKind::kSynthetic},
                   .train = {.steps = 6, .global_batch = 8, .micro_batch = 2}};
  config.model = {.layers = 2, .hidden = 32, .heads = 2, .vocab = 61, .seq_len = 16};
  config.optimizer.schedule = LrSchedule::Kind::kConstant;  // independent of the number of steps
  config.parallel.threads = 1;
  config.checkpoint = {.every = 2, .partner = true};
  return config;
}

}  // namespace trireme::testing
