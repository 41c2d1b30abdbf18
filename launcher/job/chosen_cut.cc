#include "launcher/job/chosen_cut.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "launcher/host/agreement.h"
#include "launcher/job/build.h"
#include "launcher/records/output_folder.h"
#include "parallel/foresee/memory_cut.h"
#include "parallel/layout/block_work.h"
#include "parallel/watch/watchdog.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

/// The job with an arbitrary cut, as the cut is what is searched.
PlannedJob uncut_job(JobConfig config, std::shared_ptr<const BlockList> blocks, int num_ranks) {
  config.parallel.pipeline_cut = {.kind = PipelineCut::Kind::kBlocks};
  return planned_job(config, std::move(blocks), num_ranks);
}

MemoryCut search(const JobConfig& config, const PlannedJob& job, const std::vector<double>& costs,
                 const CutMemory& memory) {
  MemoryCut found = cut_within_memory(job, costs, memory.limit_bytes);
  if (!found.cut || found.is_fastest) return found;
  constexpr double kWorthSaying = 1.01;  // smaller differences are within the error of the costs
  const double slowest = std::ranges::max(chunk_costs(*found.cut, costs));
  const double bound = std::ranges::max(chunk_costs(found.fastest.cut, costs));
  if (slowest > kWorthSaying * bound) {
    const double percent = 100 / std::accumulate(costs.begin(), costs.end(), 0.0);
    log_warning(fmt::format(
        "parallel.pipeline_cut = \"{}\": not all cuts that fit were tried; in the one that was found the "
        "slowest chunk takes {:.2f} % of the time, and none can take less than {:.2f} %",
        to_word(config.parallel.pipeline_cut), percent * slowest, percent * bound));
  }
  return found;
}

}  // namespace

PipelineCut listed(const StageMap& cut) {
  const std::vector<int> firsts = cut.first_units();
  return {.kind = PipelineCut::Kind::kListed, .firsts = {firsts.begin(), firsts.end()}};
}

std::string as_list(const StageMap& cut) {
  return to_word(listed(cut));
}

PipelineCut flops_cut(const JobConfig& config, const CutMemory& memory) {
  const auto blocks = build_blocks(config.model);
  const PlannedJob job = uncut_job(config, blocks, memory.num_ranks);
  const MemoryCut found = search(config, job, work_costs(*blocks, job.sample), memory);
  if (!found.cut || *found.cut == found.fastest.cut) return {};
  log_info(fmt::format(
      "parallel.pipeline_cut = \"flops\": with the fastest cut, \"{}\", a rank of stage {} needs {}, and may "
      "use {}; taken is \"{}\", the fastest {}that fits",
      as_list(found.fastest.cut), found.fastest.stage, format_bytes(found.fastest.bytes),
      format_bytes(memory.limit_bytes), as_list(*found.cut), found.is_fastest ? "" : "found "));
  return listed(*found.cut);
}

PipelineCut measured_cut(const JobConfig& config, const BlockProfile& profile, const CutMemory& memory) {
  const PlannedJob job = uncut_job(config, build_blocks(config.model), memory.num_ranks);
  const std::vector<double> costs = time_costs(profile.blocks);
  const MemoryCut found = search(config, job, costs, memory);
  if (found.cut) return listed(*found.cut);
  const CutNeed closest = closest_cut(job, costs, memory.limit_bytes, found.closest);
  log_warning(fmt::format(
      "parallel.pipeline_cut = \"{}\": none of the cuts that were tried fits {}: where the largest "
      "stage is smallest (\"{}\"), a rank of stage {} needs {}",
      to_word(config.parallel.pipeline_cut), format_bytes(memory.limit_bytes), as_list(closest.cut),
      closest.stage, format_bytes(closest.bytes)));
  return listed(closest.cut);
}

BlockProfile known_or_measured(const JobConfig& config, const CutMeasurement& measurement) {
  if (std::filesystem::exists(measurement.file)) {
    BlockProfile known = read_profile(measurement.file);
    const bool same_place = describe_other_place(known, measurement.device, measurement.threads).empty();
    if (same_place && describe_mismatch(known, config).empty()) return known;
  }
  prepare_output_folder(measurement.file.parent_path());
  const BlockProfile profile = measure_profile(config, measurement.device, measurement.threads);
  write_text_file(measurement.file, to_json(profile));
  return profile;
}

PipelineCut chosen_cut(const JobConfig& config, const std::shared_ptr<Communicator>& comm,
                       const CutChoice& choice) {
  const PipelineCut& given = config.parallel.pipeline_cut;
  const bool is_measured = given.kind == PipelineCut::Kind::kMeasured;
  if (config.parallel.layout.pipeline == 1 || (!is_measured && given.kind != PipelineCut::Kind::kFlops))
    return given;
  const Watchdog::Scope watch(comm->status().get(), is_measured ? "the measuring of a cut into stages"
                                                                : "the choice of a cut into stages");
  const CutMemory memory{.num_ranks = comm->size(),
                         .limit_bytes = std::ranges::min(comm->all_gather_value(choice.limit_bytes))};
  PipelineCut cut;
  run_stage(*comm, [&] {
    if (comm->rank() > 0) return;
    batch_layout(config, comm->size());  // throws if the batch cannot be laid out
    cut = is_measured ? measured_cut(config, known_or_measured(config, choice.measurement), memory)
                      : flops_cut(config, memory);
  });
  return from_word<PipelineCut>(text_of_rank(*comm, 0, to_word(cut)));
}

}  // namespace trireme
