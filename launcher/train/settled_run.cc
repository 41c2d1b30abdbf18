#include "launcher/train/settled_run.h"

#include <utility>

#include "launcher/host/agreement.h"
#include "launcher/host/arithmetic.h"
#include "launcher/host/device.h"
#include "launcher/host/machine.h"
#include "launcher/job/accumulation.h"
#include "launcher/job/chosen_cut.h"
#include "launcher/job/memory_fit.h"
#include "launcher/keys/config_difference.h"
#include "launcher/keys/job_file.h"
#include "launcher/report/chosen_layout.h"

namespace trireme {
namespace {

RankDevice device_of_rank(const JobConfig& config, const RunPlace& place) {
  const bool may_have_stages_on_gpus =
      (config.parallel.layout.pipeline > 1 || config.parallel.is_searched()) &&
      config.parallel.device != DeviceType::kCpu;
  if (may_have_stages_on_gpus) run_stage(*place.comm, [] { prepare_environment_for_stages(); });
  const Watchdog::Scope scope(place.comm->status().get(), "the choice of a device");
  return choose_device(config.parallel, place.launch, place.comm);
}

}  // namespace

RunOptions settle_run(JobConfig config, const RunPlace& place) {
  const auto& comm = place.comm;
  check_same_config(*comm, to_toml(config));
  std::shared_ptr<const BlockList> blocks;
  run_stage(*comm, [&] {
    check_threads(config.parallel);
    blocks = build_blocks(config.model);
  });
  const RankDevice rank = device_of_rank(config, place);
  config.parallel.hosts = comm->hosts();
  const BitFacts arithmetic = arithmetic_of(rank.device);
  check_same_arithmetic(*comm, arithmetic);
  const int num_local_ranks = place.launch.num_local_ranks;
  const int threads = config.parallel.threads > 0 ? static_cast<int>(config.parallel.threads)
                                                  : threads_per_rank(count_cores(), num_local_ranks);
  const MemoryLimit limit = memory_limit(config, rank.device, num_local_ranks);
  config = with_chosen_layout(config, comm,
                              {.num_ranks = comm->size(),
                               .hosts = config.parallel.hosts,
                               .device = rank.device,
                               .threads = threads,
                               .limit_bytes = limit.bytes});
  const CutMeasurement measurement{
      .device = rank.device, .threads = threads, .file = place.out / "block_times.json"};
  config.parallel.pipeline_cut = chosen_cut(counted_on(config, rank.device.type), comm,
                                            {.measurement = measurement, .limit_bytes = limit.bytes});
  const ParallelSection settled =
      with_accumulation(counted_on(config, rank.device.type), blocks, comm, limit).parallel;
  config.parallel.layout = settled.layout;
  config.parallel.open = settled.open;
  return {.config = std::move(config),
          .blocks = std::move(blocks),
          .out = place.out,
          .launch = place.launch,
          .comm = rank.comm,
          .device = rank.device,
          .arithmetic = arithmetic,
          .watchdog = place.watchdog,
          .host = comm};
}

}  // namespace trireme
