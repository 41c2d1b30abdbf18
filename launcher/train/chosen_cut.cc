#include "launcher/train/chosen_cut.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "launcher/train/agreement.h"
#include "launcher/train/build.h"
#include "parallel/foresee/block_work.h"
#include "parallel/watch/watchdog.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

std::int64_t least_of_ranks(Communicator& comm, std::int64_t mine) {
  std::int64_t least = mine;
  for (const std::string& text : comm.all_gather_strings(fmt::format("{}", mine))) {
    least = std::min<std::int64_t>(least, std::stoll(text));
  }
  return least;
}

}  // namespace

PipelineCut flops_cut(const JobConfig& config, const CutMemory& memory) {
  const auto blocks = build_blocks(config.model);
  const std::vector<double> costs = work_costs(*blocks, sample_spec(config));
  CutSearch search(config, costs, memory);
  const auto cut = search.fastest_that_fits();
  const StageCut fastest =
      cut_evenly({.blocks = costs}, static_cast<int>(config.parallel.pipeline * config.parallel.chunks));
  if (!cut || *cut == fastest) return {};
  const auto [stage, bytes] = search.largest_stage(fastest);
  log_info(fmt::format(
      "parallel.pipeline_cut = \"flops\": with the fastest cut, \"{}\", a rank of stage {} needs {}, and may "
      "use "
      "{}; taken is \"{}\", the fastest that fits",
      as_list(fastest), stage, format_bytes(bytes), format_bytes(memory.limit_bytes), as_list(*cut)));
  return listed(*cut);
}

PipelineCut chosen_cut(const JobConfig& config, const std::shared_ptr<Communicator>& comm,
                       const CutChoice& choice) {
  const PipelineCut& given = config.parallel.pipeline_cut;
  const bool is_measured = given.kind == PipelineCut::Kind::kMeasured;
  if (config.parallel.pipeline == 1 || (!is_measured && given.kind != PipelineCut::Kind::kFlops))
    return given;
  const Watchdog::Scope watch(comm->status().get(), is_measured ? "the measuring of a cut into stages"
                                                                : "the choice of a cut into stages");
  const CutMemory memory{.num_ranks = comm->size(), .limit_bytes = least_of_ranks(*comm, choice.limit_bytes)};
  PipelineCut cut;
  run_stage(*comm, [&] {
    if (comm->rank() > 0) return;
    batch_layout(config, comm->size());  // refuses what cannot be laid out
    cut = is_measured ? measured_cut(config, known_or_measured(config, choice.measurement), memory)
                      : flops_cut(config, memory);
  });
  return from_word<PipelineCut>(text_of_rank(*comm, 0, to_word(cut)));
}

}  // namespace trireme
