// A cluster as data: devices, links, host and framework, with the coefficients that calibration fits.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/device.h"

namespace trireme {

/// A measured call of an operator.
struct MeasuredOp {
  double bytes = 0;       // that it moves at the least
  double operations = 0;  // of products, convolutions and attention; else 0
  double us = 0;
};

/// One kind of device.
struct ClusterDevice {
  std::string name;
  /// Devices of one family share what calibration fits: they are one chip with other memory.
  std::string family;
  /// Links among the ranks of a node, and of a node to others, by name. `inside` is empty where a node has
  /// one rank, `between` for a single node.
  std::string inside, between;
  /// TFLOP/s of dense products by dtype: fp32, tf32, fp16, bf16, fp8.
  std::map<std::string, double> peak_tflops;
  double memory_gb = 0;
  double memory_gb_s = 0;
  /// Share of the peak that products of infinite size reach; of attention computed in one kernel.
  double matmul_efficiency = 0.75;
  double attention_efficiency = 0.4;
  /// Of one device for an hour, in any currency; 0 where it is not known.
  double price_per_hour = 0;
  DeviceType type = DeviceType::kCuda;
  /// Host threads of a rank for which this is true; 0: any number.
  double threads = 0;
  /// Ranks of a node for which this is true; 0: any number.
  double ranks = 0;
  /// The device whose measured calls are this one's, too; empty: its own.
  std::string calls_of;
  /// Calls by operator and dtype ("matmul fp32 NT"): efficiency curves. See [Note: time of an operator].
  std::map<std::string, std::vector<MeasuredOp>> measured;
};

/// A wire: what `ranks_sharing` ranks share, each direction.
struct ClusterLink {
  std::string name;
  double latency_us = 0;
  double gb_s = 0;
  double ranks_sharing = 1;
};

/// The process that drives a device.
struct ClusterHost {
  double launch_us = 8;          // from the call of a kernel to the next
  double collective_us = 50;     // more, for each exchange of a layer, times log2 of its ranks
  double backward_factor = 1.5;  // host time of a layer's backward over its forward
  double message_us = 100;       // each send to another pipeline stage
  double micro_batch_ms = 1;
  double step_ms = 10;
  double overlap = 1;  // share of an exchange's time that passes beside computation
  double cores = 0;    // of a node, shared by the threads of its ranks; 0: each rank has a device of its own
  double waiting_share = 0;  // of a core that a rank takes while it waits, where ranks share cores
};

/// Attention as kernels: scores written to memory, or kept on chip.
enum class AttentionKernel { kUnfused, kFlash };

/// What a framework computes and sends.
struct ClusterFramework {
  std::string name;
  AttentionKernel attention = AttentionKernel::kFlash;
  /// For runs that do not say whether every layer is run again in backward.
  bool recompute = false;
  /// Pipeline messages are sent in as many parts as there are tensor ranks, a part by each.
  bool scattered_messages = false;
  double gradient_bytes = 2;        // of one element while it is summed and exchanged
  double elementwise_passes = 14;   // of [B, T, C] a layer, forward: norms, residuals, dropout
  double activation_passes = 4;     // of [B, T, 4 C] a layer, forward: bias and GELU
  double softmax_passes = 8;        // of [B, heads, T, T] a layer, forward: scale, mask, softmax, dropout
  double kernels_per_layer = 30;    // that the host launches forward
  double half_dim = 150;            // a product's dim at which it loses half of its rate
  double ramp_gflop = 2;            // work at full rate that starting and ending a product costs
  double memory_efficiency = 0.85;  // of the device's bandwidth, in passes over tensors
  double fp8_efficiency = 0.75;     // of fp8's peak over that of 16 bits
  /// Time of the exchange of gradients that backward does not hide, over what the links need for it: above 1
  /// where it is slower than the wire.
  double exposed_exchange = 0.7;
  double optimizer_bytes = 24;  // of memory traffic an element of the update
};

/// Prices beside that of devices, and what interrupts runs. In any currency.
struct ClusterCost {
  double storage_per_gb_month = 0;
  double network_per_gb = 0;          // of checkpoints on their way to the storage
  double data_gb = 0;                 // of training data that is stored while the job runs
  double preemptible_discount = 0;    // of a device that may be taken away: share of its price; 0: no offer
  double interruptions_per_hour = 0;  // of one preemptible device
  double failures_per_hour = 0;       // of any device
  double restart_s = 300;             // from an interruption until the job computes again
  double save_gb_s = 1;               // at which all ranks together write a checkpoint
};

struct Cluster {
  std::string name;
  int ranks_per_node = 8;
  std::vector<ClusterDevice> devices;
  std::vector<ClusterLink> links;
  ClusterHost host;
  ClusterFramework framework;
  ClusterCost cost;

  /// Throw Error(kInvalidInput) that lists the known names.
  const ClusterDevice& device(const std::string& name) const;
  const ClusterLink& link(const std::string& name) const;
};

/// A number of one of the structs above: its bounds, and whether calibration fits it.
template <class Part>
struct ClusterField {
  const char* name;
  double Part::*value;
  double low, high;
  /// Standard deviation of the logarithm, beforehand; 0 for what is never fitted.
  double fit_width = 0;
};

std::span<const ClusterField<ClusterDevice>> device_fields();
std::span<const ClusterField<ClusterLink>> link_fields();
std::span<const ClusterField<ClusterHost>> host_fields();
std::span<const ClusterField<ClusterFramework>> framework_fields();
std::span<const ClusterField<ClusterCost>> cost_fields();

/// Throws Error(kInvalidInput) that names section, key, value and bounds; for devices also a link that is
/// missing. `where` begins the message.
void check_cluster(const Cluster& cluster, const std::string& where);

}  // namespace trireme
