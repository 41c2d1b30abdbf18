#include "launcher/cluster/rough_cluster.h"

#include <algorithm>
#include <string>

#include "launcher/host/device_rates.h"

namespace trireme {
namespace {

constexpr double kRoughMsOfARate = 20;
constexpr double kWaitingShare = 0.1;  // measured for four ranks on two cores
constexpr double kLaunchUs = 3;        // per small call on a CPU, per kernel on a GPU

bool is_host(const MeasuredRank& rank) {
  return traits(rank.device.type).host_memory;
}

Cluster cluster_of(const MeasuredRank& rank, int ranks_of_host, ClusterDevice device) {
  device.name = device.family = std::string(name(rank.device.type));
  device.inside = "inside";
  device.between = "between";
  device.memory_gb = static_cast<double>(rank.memory_bytes) * 1e-9;
  device.type = rank.device.type;
  device.matmul_efficiency = device.attention_efficiency = 1;
  Cluster cluster{.name = kRoughCluster, .ranks_per_node = ranks_of_host};
  cluster.links = {{.name = "inside", .latency_us = 5, .gb_s = is_host(rank) ? 4.0 : 20.0},
                   {.name = "between",
                    .latency_us = 50,
                    .gb_s = 1.2,
                    .ranks_sharing = static_cast<double>(ranks_of_host)}};
  cluster.host.launch_us = kLaunchUs;
  cluster.framework.name = "trireme";
  cluster.framework.fp8_efficiency = 1;
  if (is_host(rank)) {
    device.threads = static_cast<double>(rank.threads);
    cluster.host.overlap = 0;
    cluster.host.cores = static_cast<double>(rank.cores);
    cluster.host.waiting_share = kWaitingShare;
    cluster.framework.half_dim = 16;
    cluster.framework.ramp_gflop = 1e-6;
    cluster.framework.memory_efficiency = 1;
  }
  cluster.devices.push_back(std::move(device));
  return cluster;
}

}  // namespace

void add_rates(const MeasuredRank& rank, double ms, ClusterDevice& device) {
  const DeviceRateSizes sizes{.product = is_host(rank) ? 1024 : 8192,
                              .copy_bytes = std::int64_t{1} << (is_host(rank) ? 26 : 30),
                              .ms = ms};
  const DeviceRates rates = measure_device_rates(rank.device, rank.threads, sizes);
  for (const DeviceRates::Product& product : rates.products) {
    device.peak_tflops[std::string(product.math)] = product.tflops;
  }
  device.memory_gb_s = rates.copy_gb_per_s;
  device.matmul_efficiency = device.attention_efficiency = 1;
}

Cluster rough_cluster(const MeasuredRank& rank, const RoughRanks& ranks) {
  ClusterDevice device;
  add_rates(rank, kRoughMsOfARate, device);
  // Ranks that shared cores while measuring are faster with dedicated cores.
  const double turns = rank.cores > 0 ? double(ranks.at_once) * rank.threads / rank.cores : 1;
  for (auto& [math, tflops] : device.peak_tflops) tflops *= std::max(turns, 1.0);
  device.memory_gb_s *= std::max(turns, 1.0);
  return cluster_of(rank, ranks.of_host, std::move(device));
}

Cluster assumed_cluster(const MeasuredRank& rank, int ranks_of_host) {
  ClusterDevice device;
  for (const char* math : {"fp32", "tf32", "fp16", "bf16", "fp8"}) {
    device.peak_tflops[math] = is_host(rank) ? 0.05 : 50;
  }
  device.memory_gb_s = is_host(rank) ? 10 : 1000;
  return cluster_of(rank, ranks_of_host, std::move(device));
}

}  // namespace trireme
