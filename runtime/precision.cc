#include "runtime/precision.h"

#include <algorithm>

#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr std::string_view kModeNames[] = {"fp32", "tf32", "fp16", "bf16", "fp8"};

const OpPolicy& policy_of(OpKind op) {
  return kOpPolicies[static_cast<std::size_t>(op)];
}

DType dtype_of_mode(PrecisionMode mode) {
  if (mode == PrecisionMode::kFp16) return DType::kFloat16;
  return mode == PrecisionMode::kBf16 || mode == PrecisionMode::kFp8 ? DType::kBFloat16 : DType::kFloat32;
}

}  // namespace

std::optional<OpKind> find_op(std::string_view name) {
  const auto* found = std::ranges::find(kOpPolicies, name, &OpPolicy::name);
  return found == std::ranges::end(kOpPolicies) ? std::nullopt : std::optional(found->op);
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

bool Precision::has_fp8_products() const {
  return mode_ == PrecisionMode::kFp8 && !overrides_[static_cast<std::size_t>(OpKind::kLinear)];
}

DType Precision::compute_dtype() const {
  return dtype_of_mode(mode_);
}

void Precision::override_op(OpKind op, PrecisionMode mode) {
  const OpPolicy& policy = policy_of(op);
  TRIREME_CHECK(mode == PrecisionMode::kFp32 || (mode == PrecisionMode::kTf32 && policy.has_products),
                "Precision::override_op: {} = \"{}\" is not possible; allowed: \"fp32\"{}", policy.name,
                name(mode), policy.has_products ? ", \"tf32\"" : "");
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
