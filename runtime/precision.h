// In what precision each operator computes: the policy of mixed precision, in one place (the table is in
// precision.cc and reads as its documentation).
//
// [Note: mixed precision] Parameters have an fp32 master and, in fp16 and bf16, a working copy in that dtype,
// which the optimizer step writes: no weight is cast inside a step, except where an override asks an op to
// compute in another dtype than the mode's. An op whose inputs come in other dtypes than it wants casts them,
// as a node of the tape whose backward casts the gradient back. So a value and its gradient always have one
// dtype. Sums (matrix products, norms, softmax, losses) accumulate in fp32 in every mode, and parameter
// gradients are fp32 unless `grad_dtype` says otherwise. With a 16-bit `grad_dtype` the gradient of one
// backward of a block is still fp32, and rounded once when it ends; what is added and exchanged from then on
// holds 16 bits, so the error grows with the number of micro-batches.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "kernels/backend.h"

namespace trireme {

/// The precision of matrix products, and with them of activations.
enum class PrecisionMode : std::uint8_t {
  kFp32,
  kTf32,  // fp32 everywhere, but products read their inputs with 10 mantissa bits
  kFp16,  // 16-bit working copies, activations and their gradients; wants loss scaling
  kBf16,  // the same with fp32's range and 7 mantissa bits; no loss scaling
};

/// The ops that the policy knows, by the name that the configuration uses.
enum class OpKind : std::uint8_t {
  kLinear,
  kAttention,
  kEmbedding,
  kLayerNorm,
  kDropout,
  kAdd,
  kSoftmaxCrossEntropy,
  kConv2d,
  kBatchNorm,
  kRelu,
  kPool,
};
inline constexpr int kNumOpKinds = 11;

/// The dtype that an op's inputs are cast to; its result has the same one, but for losses, which are fp32.
enum class DtypeRule : std::uint8_t {
  kCompute,  // the mode's
  kAsInput,  // that of the (first) input, whatever it is
  kWidest,   // the widest of the inputs
};

struct OpPolicy {
  OpKind op;
  std::string_view name;
  DtypeRule rule;
  bool has_products;  // tf32 means something for it
};

/// A row an op, in the order of OpKind.
std::span<const OpPolicy> op_policies();
/// The op that the configuration calls `name`.
std::optional<OpKind> find_op(std::string_view name);

std::string_view name(PrecisionMode mode);
std::optional<PrecisionMode> find_precision_mode(std::string_view name);

/// The policy of a job: a mode, and what was overridden. A value, part of the Context.
class Precision {
 public:
  Precision() = default;
  explicit Precision(PrecisionMode mode) : mode_(mode) {}

  PrecisionMode mode() const { return mode_; }
  /// Of working copies, and of what kCompute ops return.
  DType compute_dtype() const;

  /// Makes one op compute in kFp32 or, an op of matrix products, in kTf32. Throws Error(kInvalidInput) for
  /// other modes: 16-bit modes are job-wide only.
  void override_op(OpKind op, PrecisionMode mode);

  /// The dtype that the op wants of its inputs: `input` is the dtype of its only, or the widest of its
  /// differentiable inputs. For an op without such inputs (embedding), pass the compute dtype.
  DType dtype_of(OpKind op, DType input) const;
  /// The rounding with which its products read fp32 inputs.
  MathMode math_of(OpKind op) const;

  /// The dtype in which parameter gradients are accumulated and exchanged. Within one backward of a block
  /// they are fp32.
  DType grad_dtype = DType::kFloat32;

 private:
  PrecisionMode mode_ = PrecisionMode::kFp32;
  std::array<std::optional<PrecisionMode>, kNumOpKinds> overrides_;
};

/// The wider of two floating dtypes: fp32 beside anything; of fp16 and bf16, which hold nothing of each
/// other, fp32.
DType wider(DType a, DType b);

}  // namespace trireme
