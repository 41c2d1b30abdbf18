// Clusters and runs for tests, with round numbers.
#pragma once

#include "parallel/cluster/cluster.h"
#include "parallel/cluster/training_run.h"

namespace trireme::testing {

/// Nodes of 8 devices with 100 TFLOP/s; 100 GB/s inside a node, a link of 40 GB/s between nodes.
inline Cluster small_cluster() {
  Cluster cluster{.name = "small"};
  cluster.devices.push_back({.name = "card",
                             .family = "card",
                             .inside = "bus",
                             .between = "wire",
                             .peak_tflops = {{"bf16", 100}, {"fp16", 100}},
                             .memory_gb = 80,
                             .memory_gb_s = 1000});
  cluster.links.push_back({.name = "bus", .latency_us = 10, .gb_s = 100});
  cluster.links.push_back({.name = "wire", .latency_us = 20, .gb_s = 40, .ranks_sharing = 8});
  return cluster;
}

inline TrainingRun small_run() {
  return {.device = "card",
          .precision = "bf16",
          .global_batch = 16,
          .micro_batch = 2,
          .seq_len = 1024,
          .layers = 16,
          .hidden = 2048,
          .heads = 16,
          .vocab = 50304};
}

}  // namespace trireme::testing
