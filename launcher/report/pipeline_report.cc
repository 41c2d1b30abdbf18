#include "launcher/report/pipeline_report.h"

#include <cmath>
#include <numeric>

#include "parallel/layout/stage_cut.h"

namespace trireme {

std::vector<ChunkReport> make_chunk_reports(const BlockList& blocks, const StageMap& stages,
                                            const std::vector<double>& costs) {
  std::vector<ChunkReport> chunks;
  const double all = std::accumulate(costs.begin(), costs.end(), 0.0);
  const std::vector<double> parameters = parameter_costs(blocks);
  for (int c = 0; c < stages.num_chunks(); ++c) {
    const int first = stages.first_unit(c), last = stages.end_unit(c) - 1;
    double count = 0;
    for (int u = first; u <= last; ++u) count += parameters[static_cast<std::size_t>(u)];
    chunks.push_back(
        {.stage = stages.stage_of_chunk(c),
         .first_unit = first,
         .last_unit = last,
         .first_block = blocks[static_cast<std::size_t>(first)]->name(),
         .last_block = blocks[static_cast<std::size_t>(last)]->name(),
         .time_share = std::accumulate(costs.begin() + first, costs.begin() + last + 1, 0.0) / all,
         .num_parameters = std::llround(count)});
  }
  return chunks;
}

}  // namespace trireme
