// The minimum cost of a call of the operator table, for any kernel: bytes and arithmetic.
#pragma once

#include <algorithm>

#include "kernels/backend.h"

namespace trireme {

/// Arithmetic units, by their rate on a card. kThreeTf32: fp32 as three products of tf32.
enum class Arithmetic : std::uint8_t { kNone, kFp32, kThreeTf32, kTf32, kSixteenBit, kFp8 };
inline constexpr int kNumArithmetics = static_cast<int>(Arithmetic::kFp8) + 1;

/// Bytes count each tensor once when read and once when written, according to ViewUse. Operations are counted
/// for matrix products, convolutions, attention and recurrences; other ops count as zero, because memory
/// limits them.
struct OpCost {
  double bytes = 0.0;
  double operations = 0.0;
  Arithmetic arithmetic = Arithmetic::kNone;
  bool operator==(const OpCost&) const = default;
};

inline Arithmetic arithmetic_of(DType operands, MathMode math) {
  if (size_bytes(operands) == 1) return Arithmetic::kFp8;
  if (size_bytes(operands) == 2) return Arithmetic::kSixteenBit;
  return math == MathMode::kTf32 ? Arithmetic::kTf32 : Arithmetic::kFp32;
}

/// fp32 attention runs on tensor cores: [Note: three products for one] in kernels/cuda/attention.
template <class Args>
inline constexpr Arithmetic kFp32Arithmetic = Arithmetic::kFp32;
template <>
inline constexpr Arithmetic kFp32Arithmetic<AttentionFwdArgs> = Arithmetic::kThreeTf32;
template <>
inline constexpr Arithmetic kFp32Arithmetic<AttentionBwdArgs> = Arithmetic::kThreeTf32;
template <>
inline constexpr Arithmetic kFp32Arithmetic<CrossAttentionFwdArgs> = Arithmetic::kThreeTf32;
template <>
inline constexpr Arithmetic kFp32Arithmetic<CrossAttentionBwdArgs> = Arithmetic::kThreeTf32;

// Floating-point operations; two for a multiplication and an addition.
template <class Args>
double operations_of(const Args&) {
  return 0.0;
}
inline double operations_of(const MatmulArgs& args) {
  const std::int64_t inner = args.a.shape[args.transpose_a == Transpose::kYes ? 0 : 1];
  return 2.0 * static_cast<double>(args.d.num_elems()) * static_cast<double>(inner);
}
inline double operations_of(const ProductSumArgs& args) {
  const auto inner = static_cast<std::int64_t>(args.products.size()) * args.products.front().a.shape[1];
  return 2.0 * static_cast<double>(args.d.num_elems()) * static_cast<double>(inner);
}
/// The share of all pairs of queries and keys that the masks leave: half with a causal mask, less in a
/// window.
template <class Args>
double visible_share(const Args& args) {
  const double window = static_cast<double>(args.window), tokens = static_cast<double>(args.out.shape[1]);
  if (window > 0 && window < tokens) return window / tokens * (1 - window / tokens / 2);
  return args.causal ? 0.5 : 1.0;
}
/// Two products over the context per element of the output.
inline double operations_of(const AttentionFwdArgs& args) {
  return visible_share(args) * 4.0 * static_cast<double>(args.out.num_elems() * args.out.shape[1]);
}
/// Five products instead of two: the scores again, then the gradients of probabilities, q, k and v.
inline double operations_of(const AttentionBwdArgs& args) {
  return visible_share(args) * 10.0 * static_cast<double>(args.out.num_elems() * args.out.shape[1]);
}
/// As for self-attention, over the keys of the other sequence.
inline double operations_of(const CrossAttentionFwdArgs& args) {
  return 4.0 * static_cast<double>(args.out.num_elems() * args.k.shape[1]);
}
inline double operations_of(const CrossAttentionBwdArgs& args) {
  return 10.0 * static_cast<double>(args.out.num_elems() * args.k.shape[1]);
}
/// The recurrent products of all steps.
inline double operations_of(const LstmFwdArgs& args) {
  return 2.0 * static_cast<double>(args.gates.num_elems()) * static_cast<double>(args.w_hh.shape[1]);
}
inline double operations_of(const LstmBwdArgs& args) {
  return 2.0 * static_cast<double>(args.gates.num_elems()) * static_cast<double>(args.w_hh.shape[1]);
}
// Each element of y, or of its gradient, uses the weights of one output channel.
inline double conv_operations(const ConstTensorView& y, const ConstTensorView& weight) {
  return 2.0 * static_cast<double>(y.num_elems()) * static_cast<double>(weight.num_elems() / weight.shape[0]);
}
inline double operations_of(const Conv2dFwdArgs& args) {
  return conv_operations(args.y, args.weight);
}
inline double operations_of(const Conv2dBwdDataArgs& args) {
  return conv_operations(args.dy, args.weight);
}
inline double operations_of(const Conv2dBwdWeightArgs& args) {
  return conv_operations(args.dy, args.dweight);
}

template <class View>
std::int64_t bytes_of(const View& view) {
  return view.defined() ? view.num_elems() * size_bytes(view.dtype) : 0;
}

inline std::int64_t bytes_moved(ViewUse use, std::int64_t bytes, std::int64_t written) {
  if (use == ViewUse::kReadRows) return std::min(bytes, written);
  return use == ViewUse::kReadTwice || use == ViewUse::kUpdate ? 2 * bytes : bytes;
}

/// The first operand that visit_views() visits: it gives the size of the call and the dtype of its products.
template <class Args>
ConstTensorView first_operand(Args args) {
  ConstTensorView first;
  visit_views(args, [&first](const auto& view, ViewUse) {
    if (!first.defined()) first = view;
  });
  return first;
}

/// Takes the arguments by value, as visit_views() requires.
template <class Args>
OpCost cost_of(Args args) {
  std::int64_t written = 0, moved = 0;
  visit_views(args, [&](const auto& view, ViewUse use) {
    if (use == ViewUse::kWrite) written += bytes_of(view);
  });
  visit_views(args,
              [&](const auto& view, ViewUse use) { moved += bytes_moved(use, bytes_of(view), written); });
  OpCost cost{.bytes = static_cast<double>(moved), .operations = operations_of(args)};
  if constexpr (requires { args.math; }) {
    cost.arithmetic = arithmetic_of(first_operand(args).dtype, args.math);
    if (cost.arithmetic == Arithmetic::kFp32) cost.arithmetic = kFp32Arithmetic<Args>;
  }
  return cost;
}

}  // namespace trireme
