// A cluster as data: devices, links, host and framework, with the coefficients that calibration fits.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/device.h"
#include "runtime/base/error.h"

namespace trireme {

/// A description lacks something that the job needs from it: a device, a link, the rate of a dtype.
class ClusterError : public Error {
 public:
  using Error::Error;
};

/// A measured call of an operator.
struct MeasuredOp {
  double bytes = 0;       // minimum number of bytes that it moves
  double operations = 0;  // products, convolutions and attention; else 0
  double us = 0;
  double inner = 0;  // as OpShape::inner; 0: unknown
};

/// One kind of device.
struct ClusterDevice {
  std::string name;
  /// Devices of one family share fitted coefficients: they are one chip with different memory.
  std::string family;
  /// Names of the links among the ranks of a node (`inside`), and from a node to others (`between`). `inside`
  /// is empty if a node has one rank, `between` for a single node.
  std::string inside, between;
  /// TFLOP/s of dense products by dtype: fp32, tf32, fp16, bf16, fp8.
  std::map<std::string, double> peak_tflops;
  double memory_gb = 0;
  double memory_gb_s = 0;
  /// Share of the peak reached by products of infinite size, and by attention in one kernel.
  double matmul_efficiency = 0.75;
  double attention_efficiency = 0.4;
  /// Price of one device for an hour, in any currency; 0: unknown.
  double price_per_hour = 0;
  DeviceType type = DeviceType::kCuda;
  /// Host threads of a rank for which this entry holds; 0: any number.
  double threads = 0;
  /// Ranks of a node for which this entry holds; 0: any number.
  double ranks = 0;
  /// Device whose measured calls apply to this one, too; empty: its own.
  std::string calls_of;
  /// Calls by operator and dtype ("matmul fp32 NT"): efficiency curves. See [Note: time of an operator].
  std::map<std::string, std::vector<MeasuredOp>> measured;
};

/// A link that `ranks_sharing` ranks share, in each direction.
struct ClusterLink {
  std::string name;
  double latency_us = 0;
  double gb_s = 0;
  double ranks_sharing = 1;
};

/// The process that drives a device.
struct ClusterHost {
  double launch_us = 8;          // from one kernel call to the next
  double backward_factor = 1.5;  // host time of a layer's backward relative to its forward
  double micro_batch_ms = 1;
  double step_ms = 10;
  double overlap = 1;        // share of an exchange's time that overlaps computation
  double cores = 0;          // per node, shared by the threads of its ranks; 0: each rank has its own device
  double waiting_share = 0;  // share of a core that a waiting rank takes, if ranks share cores
};

/// Attention kernels write scores to memory (unfused), or keep them on chip (flash).
enum class AttentionKernel { kUnfused, kFlash };

/// Computation of a framework.
struct ClusterFramework {
  std::string name;
  AttentionKernel attention = AttentionKernel::kFlash;
  /// Default for runs without `recompute`: every layer runs again in backward.
  bool recompute = false;
  double softmax_passes = 8;        // over [B, heads, T, T] per layer, forward: scale, mask, softmax, dropout
  double kernels_per_layer = 30;    // of a layer, launched by the host, forward
  double half_dim = 150;            // product dim at which half of its rate is lost
  double ramp_gflop = 2;            // overhead of starting and ending a product, as work at full rate
  double memory_efficiency = 0.85;  // share of the device's bandwidth, in passes over tensors
  double fp8_efficiency = 0.75;     // share of fp8's peak, relative to the share of the 16-bit peak
};

/// Costs besides the devices, and the rates of interruptions. Any currency.
struct ClusterCost {
  double storage_per_gb_month = 0;
  double network_per_gb = 0;          // for checkpoints sent to the storage
  double data_gb = 0;                 // training data stored while the job runs
  double preemptible_discount = 0;    // share of a device's price saved by a preemptible one; 0: not offered
  double interruptions_per_hour = 0;  // per preemptible device
  double failures_per_hour = 0;       // per device
  double restart_s = 300;             // from an interruption until the job computes again
  double save_gb_s = 1;               // rate at which all ranks together write a checkpoint
};

struct Cluster {
  std::string name;
  int ranks_per_node = 8;
  std::vector<ClusterDevice> devices;
  std::vector<ClusterLink> links;
  ClusterHost host;
  ClusterFramework framework;
  ClusterCost cost;

  /// Throw ClusterError(kInvalidInput) that lists the valid names.
  const ClusterDevice& device(const std::string& name) const;
  const ClusterLink& link(const std::string& name) const;
};

/// A number in one of the structs above: its bounds, and whether calibration fits it.
template <class Part>
struct ClusterField {
  const char* name;
  double Part::*value;
  double low, high;
  /// Prior standard deviation of the logarithm; 0: never fitted.
  double fit_width = 0;
};

std::span<const ClusterField<ClusterDevice>> device_fields();
std::span<const ClusterField<ClusterLink>> link_fields();
std::span<const ClusterField<ClusterHost>> host_fields();
std::span<const ClusterField<ClusterFramework>> framework_fields();
std::span<const ClusterField<ClusterCost>> cost_fields();

/// Throws Error(kInvalidInput) that names section, key, value and bounds; also if a device names a missing
/// link. The message begins with `where`.
void check_cluster(const Cluster& cluster, const std::string& where);

}  // namespace trireme
