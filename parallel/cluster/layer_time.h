// Seconds of one micro-batch in the layers of a GPT on one rank, including exchanges of tensor ranks.
#pragma once

#include "parallel/cluster/cluster.h"
#include "parallel/cluster/exchange_time.h"
#include "parallel/cluster/training_run.h"

namespace trireme {

/// The time of two overlapping tasks: (a^4 + b^4)^(1/4), a smooth maximum.
double overlapped_s(double a, double b);

/// [Note: rate of a product] A product of [m, k] and [k, n] takes
///     2 m n k / (peak * efficiency * s(m) s(n) s(k)) + ramp / peak,   s(x) = x / (x + half_dim):
/// Small dims leave parts of a tile, or of the chip, idle. `ramp` is the fixed cost of a product. A pass over
/// a tensor takes its bytes divided by the memory bandwidth. A layer takes the maximum of this time and of
/// the host's time to launch its kernels.
class LayerTimes {
 public:
  /// Keeps references to both arguments. Throws Error(kInvalidInput) for a precision without a peak.
  LayerTimes(const Cluster& cluster, const TrainingRun& run);

  /// A transformer layer.
  double layer_forward_s() const;
  double layer_backward_s() const;
  /// Products with the vocabulary, cross-entropy and their backward.
  double head_s() const;
  /// Embedding and its backward.
  double embedding_s() const;
  /// A pass that moves `bytes` of the device's memory.
  double memory_s(double bytes) const;
  /// Parameters of a layer, and of the embedding, on a tensor rank.
  double layer_elems() const;
  double embedding_elems() const;

 private:
  struct Product {
    double m, n, k;
  };
  double product_s(Product product) const;
  double attention_s() const;
  double tensor_sum_s() const;
  /// Products, attention and passes, forward.
  double linear_s() const;
  double passes_s() const;
  double host_s() const;
  double accumulate_s(double elems) const;

  const Cluster& cluster_;
  const ClusterDevice& device_;
  const TrainingRun& run_;
  ClusterNetwork network_;
  double tokens_;
  double peak_;         // FLOP/s of products in 16 bits, or in the run's dtype
  double linear_rate_;  // factor of linear layers: fp8
};

}  // namespace trireme
