// The part of `trireme plan` about the stages of a pipeline.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/layout/stage_map.h"
#include "runtime/block.h"

namespace trireme {

/// One chunk of blocks on the ranks of a stage.
struct ChunkReport {
  int stage = 0;
  int first_unit = 0, last_unit = 0;  // both included
  std::string first_block, last_block;
  double time_share = 0;            // of the whole model's
  std::int64_t peak_bytes = 0;      // of a rank of the stage, with all of its chunks
  std::int64_t num_parameters = 0;  // a tied one counts where it is declared and where it is copied to
};

/// In order of the chunks, without `peak_bytes`; `costs` says how much of the time each block takes.
std::vector<ChunkReport> make_chunk_reports(const BlockList& blocks, const StageMap& stages,
                                            const std::vector<double>& costs);

}  // namespace trireme
