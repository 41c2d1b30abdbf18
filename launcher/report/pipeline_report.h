// The part of `trireme plan` about pipeline stages.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/layout/stage_map.h"
#include "runtime/block.h"

namespace trireme {

/// A chunk of blocks on the ranks of a stage.
struct ChunkReport {
  int stage = 0;
  int first_unit = 0, last_unit = 0;  // inclusive
  std::string first_block, last_block;
  double time_share = 0;            // fraction of the whole model's time
  std::int64_t peak_bytes = 0;      // per rank of the stage, all chunks included
  std::int64_t num_parameters = 0;  // a tied parameter counts where it is declared and where it is copied
};

/// Chunks in order, without `peak_bytes`. `costs`: time of each block.
std::vector<ChunkReport> make_chunk_reports(const BlockList& blocks, const StageMap& stages,
                                            const std::vector<double>& costs);

}  // namespace trireme
