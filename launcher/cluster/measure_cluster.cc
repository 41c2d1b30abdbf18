#include "launcher/cluster/measure_cluster.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "launcher/config/config.h"
#include "launcher/host/device_rates.h"
#include "launcher/train/build.h"
#include "parallel/foresee/call_times.h"

namespace trireme {
namespace {

struct ReferenceJob {
  const char* model;  // [model], [data] and [train]
  bool all_precisions = false;
};

constexpr ReferenceJob kJobs[] = {
    {"[model]\nname = \"gpt\"\nlayers = 1\nhidden = 64\nheads = 2\nvocab = 256\nseq_len = 64\ndropout = 0.0\n"
     "[data]\nkind = \"synthetic\"\n[train]\nglobal_batch = 8\nmicro_batch = 4\n",
     true},
    {"[model]\nname = \"gpt\"\nlayers = 1\nhidden = 256\nheads = 4\nvocab = 2048\nseq_len = 128\ndropout = "
     "0.1\n"
     "[data]\nkind = \"synthetic\"\n[train]\nglobal_batch = 8\nmicro_batch = 4\n",
     true},
    {"[model]\nname = \"gpt\"\nlayers = 1\nhidden = 640\nheads = 10\nvocab = 8192\nseq_len = 256\n"
     "dropout = 0.0\n[data]\nkind = \"synthetic\"\n[train]\nglobal_batch = 4\nmicro_batch = 2\n",
     true},
    {"[model]\nname = \"llama\"\nlayers = 1\nhidden = 128\nheads = 4\nffn = 352\nvocab = 512\nseq_len = 128\n"
     "[data]\nkind = \"synthetic\"\n[train]\nglobal_batch = 8\nmicro_batch = 4\n"},
    {"[model]\nname = \"llama\"\nlayers = 1\nhidden = 512\nheads = 8\nffn = 1376\nvocab = 4096\nseq_len = "
     "256\n"
     "[data]\nkind = \"synthetic\"\n[train]\nglobal_batch = 4\nmicro_batch = 2\n"},
    {"[model]\nname = \"vit\"\nlayers = 1\nhidden = 192\nheads = 3\nffn = 768\npatch = 8\nimage_size = 64\n"
     "classes = 10\n[data]\nkind = \"synthetic\"\nimage_size = 64\n"
     "[train]\nglobal_batch = 8\nmicro_batch = 4\n"},
    {"[model]\nname = \"resnet18\"\nclasses = 10\n[data]\nkind = \"synthetic\"\nimage_size = 32\n"
     "[train]\nglobal_batch = 16\nmicro_batch = 8\n[optimizer]\nname = \"sgd\"\n"},
    {"[model]\nname = \"resnet50\"\nclasses = 100\n[data]\nkind = \"synthetic\"\nimage_size = 64\n"
     "[train]\nglobal_batch = 4\nmicro_batch = 2\n[optimizer]\nname = \"sgd\"\n"},
};

void add_calls(const JobConfig& config, const MeasuredRank& rank, ClusterDevice& device) {
  const auto add = [&](const CallTime& time) {
    if (time.us <= 0 || time.cost.bytes <= 0) return;
    std::vector<MeasuredOp>& calls = device.measured[kernel_of(time.shape)];
    const auto same = std::ranges::find_if(calls, [&](const MeasuredOp& call) {
      return call.bytes == time.cost.bytes && call.operations == time.cost.operations;
    });
    if (same == calls.end())
      calls.push_back({.bytes = time.cost.bytes, .operations = time.cost.operations, .us = time.us});
    else
      same->us = std::min(same->us, time.us);
  };
  measure_call_times(record_step(planned_job(config, build_blocks(config.model), 1)),
                     {.device = rank.device, .threads = rank.threads, .ms_a_call = 4.0, .batches = 4}, add);
}

/// The rates of one large product and copy: what curves go on from beyond the sizes that were measured.
void add_rates(const MeasuredRank& rank, ClusterDevice& device) {
  const bool is_host = traits(rank.device.type).host_memory;
  const DeviceRateSizes sizes{.product = is_host ? 1024 : 8192,
                              .copy_bytes = std::int64_t{1} << (is_host ? 26 : 30)};
  const DeviceRates rates = measure_device_rates(rank.device, rank.threads, sizes);
  for (const DeviceRates::Product& product : rates.products) {
    device.peak_tflops[std::string(product.math)] = product.tflops;
  }
  device.memory_gb_s = rates.copy_gb_per_s;
  device.matmul_efficiency = device.attention_efficiency = 1;
}

}  // namespace

Cluster measure_cluster(const MeasuredRank& rank, const std::function<void(const std::string&)>& observe) {
  Cluster cluster{.name = "here", .ranks_per_node = rank.num_ranks};
  const std::string type(name(rank.device.type));
  ClusterDevice device{.name = fmt::format("{}-{}-threads", type, rank.threads),
                       .family = type,
                       .memory_gb = static_cast<double>(rank.memory_bytes) * 1e-9,
                       .type = rank.device.type,
                       .threads = static_cast<double>(rank.threads)};
  observe("large products and copies");
  add_rates(rank, device);
  for (const ReferenceJob& job : kJobs) {
    for (const char* mode : {"fp32", "bf16", "fp16", "tf32"}) {
      if (!job.all_precisions && mode != std::string_view("fp32") && mode != std::string_view("bf16"))
        continue;
      const std::string text = fmt::format("{}[precision]\nmode = \"{}\"\n", job.model, mode);
      const JobConfig config = resolve(parse_config(text, "reference job"));
      observe(fmt::format("{} {}", config.model.name, mode));
      add_calls(config, rank, device);
    }
  }
  double shortest = std::numeric_limits<double>::infinity();
  for (const auto& [kernel, calls] : device.measured) {
    for (const MeasuredOp& call : calls) shortest = std::min(shortest, call.us);
  }
  cluster.host.launch_us = std::max(shortest, 1e-3);
  cluster.host.overlap = traits(rank.device.type).host_memory ? 0 : 1;
  cluster.framework = {.name = "trireme", .half_dim = 16, .ramp_gflop = 1e-6, .memory_efficiency = 1};
  if (rank.link) {
    device.inside = "ranks";
    cluster.links.push_back({.name = "ranks",
                             .latency_us = std::max(rank.link->latency_us, 1e-3),
                             .gb_s = std::max(rank.link->gb_s, 1e-6)});
  }
  cluster.devices.push_back(std::move(device));
  return cluster;
}

Cluster merged(const Cluster& old, const Cluster& now) {
  Cluster cluster = now;
  cluster.ranks_per_node = std::max(old.ranks_per_node, now.ranks_per_node);
  if (cluster.links.empty()) cluster.links = old.links;
  for (ClusterDevice& device : cluster.devices) {
    if (device.inside.empty() && !cluster.links.empty()) device.inside = cluster.links[0].name;
  }
  for (ClusterDevice device : old.devices) {
    const auto same = std::ranges::find(cluster.devices, device.name, &ClusterDevice::name);
    if (same != cluster.devices.end()) continue;
    if (device.inside.empty() && !cluster.links.empty()) device.inside = cluster.links[0].name;
    cluster.devices.push_back(std::move(device));
  }
  return cluster;
}

}  // namespace trireme
