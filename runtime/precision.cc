#include "runtime/precision.h"

#include <algorithm>

#include "runtime/base/error.h"

namespace trireme {
namespace {

using enum OpKind;
using enum DtypeRule;

// The policy. "Computes" is what happens inside of the kernel, in every mode but fp32: in fp32 all is fp32.
//
//   op                     its inputs are brought to     computes                            returns
//   linear                 the mode's dtype              products of it, summed in fp32;     the mode's dtype
//                                                        bias, GELU and residual in fp32
//   attention              the mode's dtype              products of it, softmax and sums    the mode's dtype
//                                                        in fp32
//   embedding              the mode's dtype (its table)  the sum of both rows in fp32        the mode's dtype
//   layer_norm             stay as they are              fp32                                as its input
//   dropout                the widest of x, residual     fp32                                the same
//   add                    the widest of both            fp32                                the same
//   softmax_cross_entropy  stay as they are              fp32                                fp32; gradient
//                                                                                            as the logits
//   conv2d                 the mode's dtype              products of it, summed in fp32      the mode's dtype
//   batch_norm             the widest of x, residual     fp32, running statistics too        the same
//   relu                   stay as they are                                                  as its input
//   pool                   stay as they are              sums in fp32                        as its input
//
// A wider residual than `linear` computes in is added behind it, as by `add`: a wide stream stays wide.
// Parameters follow the op: a norm of an fp32 input in a bf16 job reads gamma and beta cast to fp32.
// An override, precision.ops = { attention = "fp32" }, takes the place of the second column.
constexpr OpPolicy kPolicies[kNumOpKinds] = {
    {kLinear, "linear", kCompute, true},
    {kAttention, "attention", kCompute, true},
    {kEmbedding, "embedding", kCompute, false},
    {kLayerNorm, "layer_norm", kAsInput, false},
    {kDropout, "dropout", kWidest, false},
    {kAdd, "add", kWidest, false},
    {kSoftmaxCrossEntropy, "softmax_cross_entropy", kAsInput, false},
    {kConv2d, "conv2d", kCompute, true},
    {kBatchNorm, "batch_norm", kWidest, false},
    {kRelu, "relu", kAsInput, false},
    {kPool, "pool", kAsInput, false},
};

constexpr std::string_view kModeNames[] = {"fp32", "tf32", "fp16", "bf16"};

const OpPolicy& policy_of(OpKind op) {
  return kPolicies[static_cast<std::size_t>(op)];
}

DType dtype_of_mode(PrecisionMode mode) {
  if (mode == PrecisionMode::kFp16) return DType::kFloat16;
  return mode == PrecisionMode::kBf16 ? DType::kBFloat16 : DType::kFloat32;
}

}  // namespace

std::span<const OpPolicy> op_policies() {
  return kPolicies;
}

std::optional<OpKind> find_op(std::string_view name) {
  const auto* found = std::ranges::find(kPolicies, name, &OpPolicy::name);
  return found == std::ranges::end(kPolicies) ? std::nullopt : std::optional(found->op);
}

std::string_view name(PrecisionMode mode) {
  return kModeNames[static_cast<std::size_t>(mode)];
}

std::optional<PrecisionMode> find_precision_mode(std::string_view name) {
  const auto* found = std::ranges::find(kModeNames, name);
  if (found == std::ranges::end(kModeNames)) return std::nullopt;
  return static_cast<PrecisionMode>(found - kModeNames);
}

DType wider(DType a, DType b) {
  return a == b ? a : DType::kFloat32;
}

DType Precision::compute_dtype() const {
  return dtype_of_mode(mode_);
}

void Precision::override_op(OpKind op, PrecisionMode mode) {
  const OpPolicy& policy = policy_of(op);
  TRIREME_CHECK(mode == PrecisionMode::kFp32 || (mode == PrecisionMode::kTf32 && policy.has_products),
                "precision.ops: {} = \"{}\" is not possible; allowed: \"fp32\"{}", policy.name, name(mode),
                policy.has_products ? ", \"tf32\"" : "");
  overrides_[static_cast<std::size_t>(op)] = mode;
}

DType Precision::dtype_of(OpKind op, DType input) const {
  if (const auto& mode = overrides_[static_cast<std::size_t>(op)]) return dtype_of_mode(*mode);
  return policy_of(op).rule == DtypeRule::kCompute ? compute_dtype() : input;
}

MathMode Precision::math_of(OpKind op) const {
  const PrecisionMode mode = overrides_[static_cast<std::size_t>(op)].value_or(mode_);
  return mode == PrecisionMode::kTf32 ? MathMode::kTf32 : MathMode::kFp32;
}

}  // namespace trireme
