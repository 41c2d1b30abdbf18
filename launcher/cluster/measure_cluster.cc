#include "launcher/cluster/measure_cluster.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "launcher/cluster/reference_jobs.h"
#include "launcher/cluster/rough_cluster.h"
#include "launcher/config/config.h"
#include "launcher/job/build.h"
#include "launcher/keys/job_file.h"
#include "parallel/foresee/call_times.h"
#include "parallel/foresee/step_call_times.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

// A machine with other users can be slow for seconds at a time. So each job is measured in rounds half a
// minute apart, and the fastest round counts for each call.
constexpr int kRounds = 2;
constexpr double kSecondsOfAJob = 0.3;
constexpr double kMsOfARate = 100;

/// For each kernel, times by size: the mean of a job's calls, the fastest of its rounds, and the mean of
/// several jobs.
class MeasuredCalls {
 public:
  void begin_round() { ++round_; }

  void add(const std::string& job, const std::string& kernel, const OpCost& cost, double inner, double us) {
    if (us <= 0 || cost.bytes <= 0) return;
    Mean& mean = calls_[kernel][{cost.bytes, cost.operations, inner}][job][round_];
    mean.us += us;
    ++mean.count;
  }

  std::map<std::string, std::vector<MeasuredOp>> means() const {
    std::map<std::string, std::vector<MeasuredOp>> all;
    for (const auto& [kernel, calls] : calls_) {
      for (const auto& [size, jobs] : calls) {
        double sum = 0;
        for (const auto& [job, rounds] : jobs) sum += fastest(rounds);
        const auto& [bytes, operations, inner] = size;
        all[kernel].push_back({.bytes = bytes,
                               .operations = operations,
                               .us = sum / static_cast<double>(jobs.size()),
                               .inner = inner});
      }
    }
    return all;
  }

 private:
  struct Mean {
    double us = 0;  // total
    int count = 0;
  };
  using Rounds = std::map<int, Mean>;
  static double fastest(const Rounds& rounds) {
    double us = std::numeric_limits<double>::infinity();
    for (const auto& [round, mean] : rounds) us = std::min(us, mean.us / mean.count);
    return us;
  }

  int round_ = 0;
  // Keys: kernel, (bytes, operations, inner), job.
  using Size = std::tuple<double, double, double>;
  std::map<std::string, std::map<Size, std::map<std::string, Rounds>>> calls_;
};

/// Times calls within a step if they are synchronous, else separately.
void add_calls(const std::string& text, const MeasuredRank& rank, MeasuredCalls& calls) {
  const JobConfig config = resolve(parse_config(text, "reference job"));
  const PlannedJob job = planned_job(config, build_blocks(config.model), 1);
  if (backend_for(rank.device.type).is_asynchronous()) {
    measure_call_times(record_step(job),
                       {.device = rank.device, .threads = rank.threads, .ms_a_call = 2.0, .batches = 4},
                       [&](const CallTime& time) {
                         calls.add(text, kernel_of(time.shape), time.cost, time.shape.inner, time.us);
                       });
    return;
  }
  const HostBatch batch =
      open_data(config, /*read_whole=*/false).train->read_train(0, config.train.micro_batch);
  const BatchSource source = [&](std::int64_t, std::int64_t) { return batch; };
  for (const TimedCall& call : time_calls_of_step(
           job, source, {.device = rank.device, .threads = rank.threads, .seconds = kSecondsOfAJob})) {
    calls.add(text, call.kernel, call.cost, call.inner, call.us);
  }
}

/// Adds a separate link for each number of ranks.
void add_link(const MeasuredRank& rank, ClusterDevice& device, Cluster& cluster) {
  device.inside = fmt::format("{}-ranks", rank.num_ranks);
  std::erase_if(cluster.links, [&](const ClusterLink& link) { return link.name == device.inside; });
  cluster.links.push_back({.name = device.inside,
                           .latency_us = std::max(rank.link->latency_us, 1e-3),
                           .gb_s = std::max(rank.link->gb_s, 1e-6)});
}

}  // namespace

Cluster measure_cluster(const MeasuredRank& rank,
                        const std::function<void(const std::string& what, double done)>& observe) {
  Cluster cluster{.name = "here", .ranks_per_node = rank.num_ranks};
  const std::string type(name(rank.device.type));
  const bool is_host = traits(rank.device.type).host_memory;
  ClusterDevice device{.name = is_host ? fmt::format("{}-{}-threads", type, rank.threads) : type,
                       .family = type,
                       .memory_gb = static_cast<double>(rank.memory_bytes) * 1e-9,
                       .type = rank.device.type,
                       .threads = is_host ? static_cast<double>(rank.threads) : 0};
  observe("large products and copies", 0.0);
  add_rates(rank, kMsOfARate, device);
  MeasuredCalls calls;
  const std::vector<std::string> jobs = reference_jobs(rank.device.type);
  // Asynchronous calls are timed separately, where the fastest of several already counts.
  const int rounds = backend_for(rank.device.type).is_asynchronous() ? 1 : kRounds;
  const auto num_parts = static_cast<double>(rounds * jobs.size() + 1);
  double num_done = 1;
  for (int round = 0; round < rounds; ++round) {
    calls.begin_round();
    for (const std::string& job : jobs) {
      observe(fmt::format("calls of {} small models, round {} of {}", jobs.size(), round + 1, rounds),
              num_done++ / num_parts);
      add_calls(job, rank, calls);
    }
  }
  device.measured = calls.means();
  double shortest = std::numeric_limits<double>::infinity();
  for (const auto& [kernel, calls] : device.measured) {
    for (const MeasuredOp& call : calls) shortest = std::min(shortest, call.us);
  }
  cluster.host.launch_us = std::max(shortest, 1e-3);
  cluster.host.overlap = is_host ? 0 : 1;
  cluster.framework = {
      .name = "trireme", .half_dim = 16, .ramp_gflop = 1e-6, .memory_efficiency = 1, .fp8_efficiency = 1};
  cluster.host.cores = rank.cores;
  if (rank.link) add_link(rank, device, cluster);
  cluster.devices.push_back(std::move(device));
  return cluster;
}

Cluster with_shared_cores(Cluster old, const MeasuredRank& rank) {
  const auto same = std::ranges::find_if(old.devices, [&](const ClusterDevice& known) {
    return known.type == rank.device.type && known.threads == rank.threads && known.ranks == 0;
  });
  TRIREME_CHECK(same != old.devices.end(),
                "{} ranks of {} thread(s) share {} cores; measure {} ranks first, each on cores of its own",
                rank.num_ranks, rank.threads, rank.cores, std::max(rank.cores / rank.threads, 1));
  ClusterDevice device = *same;
  device.calls_of = same->name;
  device.name = fmt::format("{}-{}-ranks", same->name, rank.num_ranks);
  device.ranks = rank.num_ranks;
  device.memory_gb = static_cast<double>(rank.memory_bytes) * 1e-9;
  add_link(rank, device, old);
  std::erase_if(old.devices, [&](const ClusterDevice& known) { return known.name == device.name; });
  old.devices.push_back(std::move(device));
  old.ranks_per_node = std::max(old.ranks_per_node, rank.num_ranks);
  old.host.waiting_share = rank.waiting_share;
  return old;
}

Cluster merged(const Cluster& old, const Cluster& now) {
  Cluster cluster = now;
  cluster.ranks_per_node = std::max(old.ranks_per_node, now.ranks_per_node);
  cluster.host.waiting_share = old.host.waiting_share;  // only ranks that share cores have one
  for (const ClusterLink& link : old.links) {
    if (std::ranges::find(cluster.links, link.name, &ClusterLink::name) == cluster.links.end()) {
      cluster.links.push_back(link);
    }
  }
  for (const ClusterDevice& device : old.devices) {
    const auto same = std::ranges::find(cluster.devices, device.name, &ClusterDevice::name);
    if (same == cluster.devices.end()) cluster.devices.push_back(device);
  }
  for (ClusterDevice& device : cluster.devices) {
    if (device.inside.empty() && !cluster.links.empty()) device.inside = cluster.links[0].name;
    if (device.calls_of == now.devices[0].name) device.measured = now.devices[0].measured;
  }
  return cluster;
}

}  // namespace trireme
