#include "launcher/pipeline_report.h"

#include <fmt/core.h>

#include <cmath>

#include "parallel/stage_cut.h"

namespace trireme {

std::vector<ChunkReport> make_chunk_reports(const BlockList& blocks, const StageMap& stages) {
  std::vector<ChunkReport> chunks;
  if (stages.pipeline == 1) return chunks;
  const std::vector<double> parameters = parameter_costs(blocks);
  for (int c = 0; c < stages.num_chunks(); ++c) {
    const int first = stages.first_unit(c), last = stages.end_unit(c) - 1;
    double count = 0;
    for (int u = first; u <= last; ++u) count += parameters[static_cast<std::size_t>(u)];
    chunks.push_back({.stage = stages.stage_of_chunk(c),
                      .first_unit = first,
                      .last_unit = last,
                      .first_block = blocks[static_cast<std::size_t>(first)]->name(),
                      .last_block = blocks[static_cast<std::size_t>(last)]->name(),
                      .num_parameters = std::llround(count)});
  }
  return chunks;
}

std::string to_text(const std::vector<ChunkReport>& chunks) {
  std::string text;
  for (const ChunkReport& chunk : chunks) {
    const std::string which = chunk.first_unit == chunk.last_unit
                                  ? fmt::format("block {} ({})", chunk.first_unit, chunk.first_block)
                                  : fmt::format("blocks {}-{} ({} to {})", chunk.first_unit, chunk.last_unit,
                                                chunk.first_block, chunk.last_block);
    text += fmt::format("stage {}: {}, {} parameters\n", chunk.stage, which, chunk.num_parameters);
  }
  return text;
}

}  // namespace trireme
