#include "parallel/cluster/cluster.h"

#include <fmt/ranges.h>

#include <cmath>

#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr double kMost = 1e9;

template <class Part>
const Part& find_part(const std::vector<Part>& parts, const std::string& name, const char* kind) {
  std::vector<std::string> names;
  for (const Part& part : parts) {
    if (part.name == name) return part;
    names.push_back(part.name);
  }
  throw ClusterError(ErrorCode::kInvalidInput, "unknown {} \"{}\": the cluster has {}", kind, name,
                     names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
}

template <class Part>
void check_fields(const Part& part, std::span<const ClusterField<Part>> fields, const std::string& where) {
  for (const ClusterField<Part>& field : fields) {
    const double value = part.*field.value;
    TRIREME_CHECK(std::isfinite(value) && value >= field.low && value <= field.high,
                  "{}{} = {} must be from {} to {}", where, field.name, value, field.low, field.high);
  }
}

void check_link_name(const Cluster& cluster, const std::string& name, const std::string& where) {
  for (const ClusterLink& link : cluster.links) {
    if (link.name == name) return;
  }
  throw Error(ErrorCode::kInvalidInput,
              "{} = \"{}\": there is no [links.{}]; add it with latency_us and gb_s", where, name, name);
}

}  // namespace

std::span<const ClusterField<ClusterDevice>> device_fields() {
  static const ClusterField<ClusterDevice> kFields[] = {
      {"memory_gb", &ClusterDevice::memory_gb, 1e-3, kMost},
      {"memory_gb_s", &ClusterDevice::memory_gb_s, 1e-3, kMost},
      {"matmul_efficiency", &ClusterDevice::matmul_efficiency, 0.01, 1, 0.1},
      {"attention_efficiency", &ClusterDevice::attention_efficiency, 0.01, 1, 0.2},
      {"price_per_hour", &ClusterDevice::price_per_hour, 0, kMost},
      {"threads", &ClusterDevice::threads, 0, 1 << 20},
      {"ranks", &ClusterDevice::ranks, 0, 1 << 20},
  };
  return kFields;
}

std::span<const ClusterField<ClusterLink>> link_fields() {
  static const ClusterField<ClusterLink> kFields[] = {
      {"latency_us", &ClusterLink::latency_us, 1e-3, kMost, 0.7},
      {"gb_s", &ClusterLink::gb_s, 1e-6, kMost, 0.3},
      {"ranks_sharing", &ClusterLink::ranks_sharing, 1, kMost},
  };
  return kFields;
}

std::span<const ClusterField<ClusterHost>> host_fields() {
  static const ClusterField<ClusterHost> kFields[] = {
      {"launch_us", &ClusterHost::launch_us, 1e-3, kMost, 0.7},
      {"backward_factor", &ClusterHost::backward_factor, 0.1, 10, 0.3},
      {"micro_batch_ms", &ClusterHost::micro_batch_ms, 1e-3, kMost, 0.7},
      {"step_ms", &ClusterHost::step_ms, 1e-3, kMost, 0.7},
      {"overlap", &ClusterHost::overlap, 0, 1},
      {"cores", &ClusterHost::cores, 0, 1 << 20},
      {"waiting_share", &ClusterHost::waiting_share, 0, 1},
  };
  return kFields;
}

std::span<const ClusterField<ClusterFramework>> framework_fields() {
  static const ClusterField<ClusterFramework> kFields[] = {
      {"softmax_passes", &ClusterFramework::softmax_passes, 0, 1000},
      {"kernels_per_layer", &ClusterFramework::kernels_per_layer, 0, 1e6},
      {"half_dim", &ClusterFramework::half_dim, 0.1, 1e5, 0.7},
      {"ramp_gflop", &ClusterFramework::ramp_gflop, 1e-6, 1e5, 1.0},
      {"memory_efficiency", &ClusterFramework::memory_efficiency, 0.05, 2, 0.15},
      {"fp8_efficiency", &ClusterFramework::fp8_efficiency, 0.05, 1, 0.2},
  };
  return kFields;
}

std::span<const ClusterField<ClusterCost>> cost_fields() {
  static const ClusterField<ClusterCost> kFields[] = {
      {"storage_per_gb_month", &ClusterCost::storage_per_gb_month, 0, kMost},
      {"network_per_gb", &ClusterCost::network_per_gb, 0, kMost},
      {"data_gb", &ClusterCost::data_gb, 0, kMost},
      {"preemptible_discount", &ClusterCost::preemptible_discount, 0, 1},
      {"interruptions_per_hour", &ClusterCost::interruptions_per_hour, 0, 3600},
      {"failures_per_hour", &ClusterCost::failures_per_hour, 0, 3600},
      {"restart_s", &ClusterCost::restart_s, 0, kMost},
      {"save_gb_s", &ClusterCost::save_gb_s, 1e-6, kMost},
  };
  return kFields;
}

const ClusterDevice& Cluster::device(const std::string& device_name) const {
  return find_part(devices, device_name, "device");
}

const ClusterLink& Cluster::link(const std::string& link_name) const {
  return find_part(links, link_name, "link");
}

void check_cluster(const Cluster& cluster, const std::string& where) {
  TRIREME_CHECK(cluster.ranks_per_node >= 1, "{}: ranks_per_node = {} must be 1 or more", where,
                cluster.ranks_per_node);
  TRIREME_CHECK(!cluster.devices.empty(), "{}: there is no device; add a section [devices.NAME]", where);
  for (const ClusterDevice& device : cluster.devices) {
    const std::string section = fmt::format("{}: devices.{}.", where, device.name);
    check_fields(device, device_fields(), section);
    TRIREME_CHECK(!device.peak_tflops.empty(), "{}peak_tflops is missing: {{ bf16 = TFLOP/s, ... }}",
                  section);
    for (const auto& [dtype, tflops] : device.peak_tflops) {
      TRIREME_CHECK(tflops > 0 && tflops < kMost, "{}peak_tflops.{} = {} must be above 0", section, dtype,
                    tflops);
    }
    for (const auto& [op, calls] : device.measured) {
      for (const MeasuredOp& call : calls) {
        TRIREME_CHECK(call.bytes > 0 && call.operations >= 0 && call.us > 0 && call.us < kMost,
                      "{}measured.\"{}\": [{}, {}, {}] needs bytes and us above 0, operations of 0 or more",
                      section, op, call.bytes, call.operations, call.us);
      }
    }
    TRIREME_CHECK(!device.inside.empty() || cluster.ranks_per_node == 1,
                  "{}inside is missing: the link among the {} ranks of a node", section,
                  cluster.ranks_per_node);
    if (!device.inside.empty()) check_link_name(cluster, device.inside, section + "inside");
    if (!device.between.empty()) check_link_name(cluster, device.between, section + "between");
  }
  for (const ClusterLink& link : cluster.links) {
    check_fields(link, link_fields(), fmt::format("{}: links.{}.", where, link.name));
  }
  check_fields(cluster.host, host_fields(), where + ": host.");
  check_fields(cluster.framework, framework_fields(), where + ": framework.");
  check_fields(cluster.cost, cost_fields(), where + ": cost.");
}

}  // namespace trireme
