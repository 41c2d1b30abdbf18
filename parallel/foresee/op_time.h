// Seconds of an operator on a device of a cluster, from its data sheet and from measured calls.
#pragma once

#include <string>
#include <type_traits>

#include "parallel/cluster/cluster.h"
#include "parallel/layout/op_cost.h"

namespace trireme {

/// The properties of a call that determine its time.
struct OpShape {
  std::string_view op;  // Args::kName
  DType dtype = DType::kFloat32;
  OpCost cost;
  double m = 0, n = 0, k = 0;  // product [m, k] x [k, n]; else 0
  double inner = 0;            // length of the dot products: k, or the width of an attention head; else 0
  bool transpose_a = false, transpose_b = false;
  bool activates = false;  // in the product's epilogue
  bool operator==(const OpShape&) const = default;
};

template <class Args>
OpShape shape_of(Args args) {
  OpShape shape{.op = Args::kName, .dtype = first_operand(args).dtype, .cost = cost_of(args)};
  if constexpr (requires { args.transpose_a; }) {
    shape.transpose_a = args.transpose_a == Transpose::kYes;
    shape.transpose_b = args.transpose_b == Transpose::kYes;
    shape.activates = args.activation != Activation::kNone;
    shape.m = static_cast<double>(args.d.shape[0]);
    shape.n = static_cast<double>(args.d.shape[1]);
    shape.k = static_cast<double>(args.a.shape[shape.transpose_a ? 0 : 1]);
  } else if constexpr (std::is_same_v<Args, ProductSumArgs>) {
    // Treated as consecutive products, with the rate and the measured times of matmul.
    shape.op = MatmulArgs::kName;
    shape.dtype = args.products[0].a.dtype;
    shape.transpose_b = args.transpose_b == Transpose::kYes;
    shape.m = static_cast<double>(args.d.shape[0]);
    shape.n = static_cast<double>(args.d.shape[1]);
    shape.k = static_cast<double>(args.products[0].a.shape[1]);
  }
  shape.inner = shape.k;
  if constexpr (requires { args.lse, args.num_heads; }) {
    shape.inner = static_cast<double>(args.out.shape[-1]) / args.num_heads;
  }
  return shape;
}

/// "matmul bf16 NT", "gelu fp32": calls of one kernel, which differ only in size.
std::string kernel_of(const OpShape& shape);

/// [Note: rate of a product] A product of [m, k] and [k, n] takes
///     2 m n k / (peak * efficiency * s(m) s(n) s(k)) + ramp / peak,   s(x) = x / (x + half_dim):
/// Small dims leave parts of a tile, or of the chip, without work, and every product has the cost of starting
/// and ending once. Products in fp8 take 1 / fp8_efficiency of that.
///
/// [Note: time of an operator] The longer of the time for its operations, as in [Note: rate of a product],
/// and of the time for its bytes at the memory's rate, after a launch. If calls of the same kernel were
/// measured, this is multiplied by their ratio of measured to computed time: the mean of the logarithms,
/// weighted by nearness in the logarithms of bytes, operations and inner extent. A measured call has its
/// measured time.
class OpTimes {
 public:
  /// Keeps references to both arguments, which must outlive this.
  OpTimes(const Cluster& cluster, const ClusterDevice& device) : cluster_(cluster), device_(device) {}

  /// Throws Error(kInvalidInput) for a product of a dtype without a peak.
  double seconds(const OpShape& shape) const;
  /// The same without launch and without measured calls.
  double device_s(const OpShape& shape) const;
  /// A pass that moves `bytes` of the device's memory.
  double memory_s(double bytes) const;
  /// FLOP/s of products.
  double peak(Arithmetic arithmetic, DType dtype) const;

 private:
  double described_s(const OpShape& shape) const;

  const Cluster& cluster_;
  const ClusterDevice& device_;
};

}  // namespace trireme
