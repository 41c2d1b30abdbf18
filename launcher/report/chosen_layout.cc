#include "launcher/report/chosen_layout.h"

#include <fmt/core.h>

#include <algorithm>

#include "launcher/cluster/rough_cluster.h"
#include "launcher/host/agreement.h"
#include "launcher/host/device.h"
#include "launcher/host/machine.h"
#include "launcher/job/build.h"
#include "launcher/keys/job_file.h"
#include "launcher/keys/layout_keys.h"
#include "launcher/render/text_table.h"
#include "launcher/report/layouts_report.h"
#include "parallel/watch/watchdog.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

int ranks_of_first_host(const LayoutRanks& ranks) {
  if (ranks.hosts.empty()) return ranks.num_ranks;
  return static_cast<int>(std::ranges::count(ranks.hosts, ranks.hosts[0]));
}

/// Number of cores that the ranks of a host share; 0: the launcher bound each rank to its own cores.
int shared_cores(DeviceType type) {
  const CoreCounts cores = count_cores();
  return traits(type).host_memory && cores.affinity == cores.machine ? cores.usable() : 0;
}

ClusterChoice this_machine(const LayoutRanks& ranks, Rates rates) {
  const int of_host = ranks_of_first_host(ranks);
  const MeasuredRank rank{.device = ranks.device,
                          .threads = ranks.threads,
                          .num_ranks = of_host,
                          .cores = shared_cores(ranks.device.type),
                          .memory_bytes = ranks.limit_bytes,
                          .link = {}};
  Cluster cluster =
      rates == Rates::kAssumed
          ? assumed_cluster(rank, of_host)
          : rough_cluster(rank, {.of_host = of_host, .at_once = rates == Rates::kAtOnce ? of_host : 1});
  const std::string device = cluster.devices[0].name;
  return {std::move(cluster), kRoughCluster, device};
}

std::string describe_source(const ClusterChoice& cluster) {
  if (cluster.file != kRoughCluster) return fmt::format("{} ({})", cluster.file, cluster.device);
  const Cluster& rough = cluster.cluster;
  const bool has_hosts = rough.ranks_per_node > 1;
  return fmt::format(
      "a rough description of this machine (a product and a copy timed; links of {:g} GB/s{} assumed: "
      "`trireme doctor --measure` makes a better one, for parallel.cluster)",
      rough.links[has_hosts ? 0 : 1].gb_s, has_hosts ? " within a host" : "");
}

std::string describe_choice(const JobConfig& settled, const LayoutsReport& report,
                            const ClusterChoice& cluster) {
  const FoundLayout& best = report.found.best[0];
  return fmt::format(
      "parallel.layout = \"auto\" on {}: {}, the fastest of {} layouts by {}; foreseen are {:.5g} ms "
      "a step and {} of {} a rank. To fix it: `trireme plan JOB.toml --search --ranks {} --write JOB2.toml`, "
      "or take the [parallel] of the run's config.toml",
      plural(report.num_ranks, "rank"), describe_layout(settled), report.found.num_candidates,
      describe_source(cluster), best.price.step_ms, format_bytes(best.peak_bytes),
      format_bytes(report.limit_bytes), report.num_ranks);
}

void warn_of_other_nodes(const ClusterChoice& cluster, const LayoutRanks& ranks) {
  const int described = std::min(cluster.cluster.ranks_per_node, ranks.num_ranks);
  const int here = ranks_of_first_host(ranks);
  if (described == here) return;
  log_warning(fmt::format(
      "parallel.cluster = \"{}\" has nodes of {} ranks, and the job's first host has {} of its {}: exchanges "
      "are foreseen on other links than they will have",
      cluster.file, cluster.cluster.ranks_per_node, here, ranks.num_ranks));
}

}  // namespace

ClusterChoice cluster_of_search(const JobConfig& config, const LayoutRanks& ranks, Rates rates) {
  const ParallelSection& parallel = config.parallel;
  if (parallel.cluster.empty()) return this_machine(ranks, rates);
  return read_cluster_choice(
      parallel.cluster, parallel.cluster_device,
      {.threads = ranks.threads, .num_ranks = ranks.num_ranks, .chosen_by = "parallel.cluster_device"});
}

ChosenLayout choose_layout(const JobConfig& config, const ClusterChoice& cluster, const LayoutRanks& ranks) {
  const DeviceType type = cluster.ranks_device().type;
  const LayoutsReport report = find_layouts(counted_on(config, type), cluster,
                                            {.num_ranks = ranks.num_ranks,
                                             .ranks_per_machine = ranks_of_first_host(ranks),
                                             .hosts = ranks.hosts,
                                             .limit_bytes = ranks.limit_bytes,
                                             .most = 1,
                                             .on_progress = progress_lines()});
  if (report.found.best.empty()) {
    const bool none_divides = !report.found.closest && report.fixed.empty();
    if (none_divides) batch_layout(config, ranks.num_ranks);  // its message may list valid numbers
    throw Error(ErrorCode::kInvalidInput, "parallel.layout = \"auto\" on {} rank(s): {}", ranks.num_ranks,
                describe_none(report));
  }
  JobConfig settled = config;
  settled.parallel = report.configs[0].parallel;
  settled.parallel.device = config.parallel.device;
  settled.parallel.hosts = config.parallel.hosts;
  return {settled, describe_choice(settled, report, cluster)};
}

JobConfig with_chosen_layout(const JobConfig& config, const std::shared_ptr<Communicator>& comm,
                             const LayoutRanks& mine) {
  if (!config.parallel.is_searched()) return config;
  const Watchdog::Scope watch(comm->status().get(), "the choice of a layout");
  LayoutRanks ranks = mine;
  ranks.limit_bytes = std::ranges::min(comm->all_gather_value(mine.limit_bytes));
  std::string chosen;
  ClusterChoice cluster;
  // All ranks measure at once. Only rank 0 reads a cluster file: other hosts may not have it.
  run_stage(*comm, [&] {
    if (config.parallel.cluster.empty() || comm->rank() == 0)
      cluster = cluster_of_search(config, ranks, Rates::kAtOnce);
  });
  run_stage(*comm, [&] {
    if (comm->rank() > 0) return;
    TRIREME_CHECK(cluster.ranks_device().type == mine.device.type,
                  "parallel.cluster = \"{}\": its {} is a {}, and the ranks compute on a {}: name another "
                  "file, or parallel.cluster_device",
                  cluster.file, cluster.device, name(cluster.ranks_device().type), name(mine.device.type));
    if (!config.parallel.cluster.empty()) warn_of_other_nodes(cluster, ranks);
    const ChosenLayout layout = choose_layout(config, cluster, ranks);
    log_info(layout.message);
    chosen = to_toml(layout.config);
  });
  JobConfig settled = config;
  settled.parallel = parse_written_config(text_of_rank(*comm, 0, chosen), "the layout of rank 0").parallel;
  settled.parallel.hosts = config.parallel.hosts;
  return settled;
}

}  // namespace trireme
