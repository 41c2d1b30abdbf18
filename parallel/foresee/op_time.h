// Seconds of an operator on a device of a cluster: by its data sheet, and by calls that were measured.
#pragma once

#include <string>
#include <type_traits>

#include "parallel/cluster/cluster.h"
#include "parallel/foresee/op_cost.h"

namespace trireme {

/// The parts of a call that its time depends on.
struct OpShape {
  std::string_view op;  // Args::kName
  DType dtype = DType::kFloat32;
  OpCost cost;
  double m = 0, n = 0, k = 0;  // of a product [m, k] x [k, n]; else 0
  bool transpose_a = false, transpose_b = false;
  bool activates = false;  // the product's epilogue
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
    // As products one after the other: by their rate, and by what calls of matmul took.
    shape.op = MatmulArgs::kName;
    shape.dtype = args.products[0].a.dtype;
    shape.transpose_b = args.transpose_b == Transpose::kYes;
    shape.m = static_cast<double>(args.d.shape[0]);
    shape.n = static_cast<double>(args.d.shape[1]);
    shape.k = static_cast<double>(args.products[0].a.shape[1]);
  }
  return shape;
}

/// "matmul bf16 NT", "gelu fp32": calls of one kernel, which differ in size alone.
std::string kernel_of(const OpShape& shape);

/// [Note: time of an operator] The longer of the time for its operations, as in [Note: rate of a product],
/// and for its bytes at the memory's rate, after a launch. Where calls of the same kernel were measured, this
/// is multiplied by what they took over what it says of them: the mean of the logarithms, weighted by
/// nearness in the logarithms of bytes and operations. A measured call has its measured time.
class OpTimes {
 public:
  /// Keeps references to both, which must live longer.
  OpTimes(const Cluster& cluster, const ClusterDevice& device) : cluster_(cluster), device_(device) {}

  /// Throws Error(kInvalidInput) for a product of a dtype without a peak.
  double seconds(const OpShape& shape) const;
  /// FLOP/s of products.
  double peak(Arithmetic arithmetic, DType dtype) const;

 private:
  double described_s(const OpShape& shape) const;

  const Cluster& cluster_;
  const ClusterDevice& device_;
};

}  // namespace trireme
