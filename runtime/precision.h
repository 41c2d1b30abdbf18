// The precision each operator computes in: the policy of mixed precision, in one table that also documents
// it.
//
// [Note: mixed precision] Parameters have an fp32 master and, in fp16 and bf16, a working copy in that dtype,
// which the optimizer step writes. No weight is cast inside a step, unless an override makes an op compute in
// another dtype than the mode's. An op casts inputs of other dtypes, as a node of the tape whose backward
// casts the gradient back. So a value and its gradient always have one dtype. Sums (matrix products, norms,
// softmax, losses) accumulate in fp32 in every mode, and parameter gradients are fp32 unless `grad_dtype`
// differs. With a 16-bit `grad_dtype`, the gradient of one backward of a block is still fp32 and is rounded
// once at its end. Accumulation and communication after that use 16 bits, so the error grows with the number
// of micro-batches.
#pragma once

#include <array>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

#include "kernels/backend.h"

namespace trireme {

/// The precision of matrix products, and so of activations.
enum class PrecisionMode : std::uint8_t {
  kFp32,
  kTf32,  // fp32 everywhere, but products round their inputs to 10 mantissa bits
  kFp16,  // 16-bit working copies, activations and their gradients; needs loss scaling
  kBf16,  // the same with fp32's range and 7 mantissa bits; no loss scaling
  kFp8,   // as bf16, but products of inner linear layers read 8 bits: [Note: fp8] in runtime/base/fp8.h
};

/// The dtype that an op's inputs are cast to. Its result has the same dtype, except losses, which are fp32.
enum class DtypeRule : std::uint8_t {
  kCompute,  // the mode's dtype
  kAsInput,  // the dtype of the (first) input
  kWidest,   // the widest of the inputs
};

/// The ops of the policy, each with a row in kOpPolicies.
enum class OpKind : std::uint8_t {
  kLinear,
  kAttention,
  kEmbedding,
  kLayerNorm,
  kRmsNorm,
  kDropout,
  kAdd,
  kSoftmaxCrossEntropy,
  kConv2d,
  kBatchNorm,
  kRelu,
  kPool,
  kRope,
  kSwiglu,
  kLstm,
  kGroupNorm,
  kMul,
  kConcatChannels,
  kSquaredError,
  kDetectionLoss,
};

struct OpPolicy {
  OpKind op;
  std::string_view name;  // as in the configuration
  DtypeRule rule;
  bool has_products;  // the op has matrix products, so tf32 applies to it
};

// The policy. "Computes" describes the inside of the kernel, in every mode but fp32. In fp32 everything is
// fp32.
//
//   op                     its inputs are cast to        computes                            returns
//   linear                 the mode's dtype              products in it, summed in fp32;     the mode's dtype
//                                                        bias, GELU and residual in fp32
//   attention              the mode's dtype              products in it, softmax and sums    the mode's dtype
//                                                        in fp32
//   embedding              the mode's dtype (its table)  the sum of both rows in fp32        the mode's dtype
//   layer_norm             not cast                      fp32                                as its input
//   rms_norm               not cast                      fp32                                as its input
//   dropout                the widest of x, residual     fp32                                the same
//   add                    the wider of both             fp32                                the same
//   softmax_cross_entropy  not cast                      fp32                                fp32; gradient
//                                                                                            as the logits
//   conv2d                 the mode's dtype              products in it, summed in fp32      the mode's dtype
//   batch_norm             the widest of x, residual     fp32, running statistics too        the same
//   relu                   not cast                                                          as its input
//   pool                   not cast                      sums in fp32                        as its input
//   rope                   not cast                      fp32                                as its input
//   swiglu                 not cast                      fp32                                as its input
//   lstm                   the mode's dtype              recurrent products in it, summed    the mode's dtype
//                                                        in fp32; gates and cells in fp32
//   group_norm             not cast                      fp32                                as its input
//   mul                    the wider of both             fp32                                the same
//   concat_channels        the wider of both                                                 the same
//   squared_error          not cast; its target to fp32  fp32                                fp32; gradient
//   as
//                                                                                            the prediction
//   detection_loss         not cast                      fp64                                fp32; gradient
//   as
//                                                                                            the predictions
//
// In mode fp8 "the mode's dtype" is bf16; `linear` quantizes its operands to 8 bits from there.
// If the residual of `linear` is wider than its result, it is added in a separate pass, as by `add`: a wide
// stream stays wide.
// Parameters follow the op: a norm of an fp32 input in a bf16 job reads gamma and beta cast to fp32.
// An override, override_op(kAttention, kFp32), replaces the second column.
inline constexpr OpPolicy kOpPolicies[] = {
    {OpKind::kLinear, "linear", DtypeRule::kCompute, true},
    {OpKind::kAttention, "attention", DtypeRule::kCompute, true},
    {OpKind::kEmbedding, "embedding", DtypeRule::kCompute, false},
    {OpKind::kLayerNorm, "layer_norm", DtypeRule::kAsInput, false},
    {OpKind::kRmsNorm, "rms_norm", DtypeRule::kAsInput, false},
    {OpKind::kDropout, "dropout", DtypeRule::kWidest, false},
    {OpKind::kAdd, "add", DtypeRule::kWidest, false},
    {OpKind::kSoftmaxCrossEntropy, "softmax_cross_entropy", DtypeRule::kAsInput, false},
    {OpKind::kConv2d, "conv2d", DtypeRule::kCompute, true},
    {OpKind::kBatchNorm, "batch_norm", DtypeRule::kWidest, false},
    {OpKind::kRelu, "relu", DtypeRule::kAsInput, false},
    {OpKind::kPool, "pool", DtypeRule::kAsInput, false},
    {OpKind::kRope, "rope", DtypeRule::kAsInput, false},
    {OpKind::kSwiglu, "swiglu", DtypeRule::kAsInput, false},
    {OpKind::kLstm, "lstm", DtypeRule::kCompute, true},
    {OpKind::kGroupNorm, "group_norm", DtypeRule::kAsInput, false},
    {OpKind::kMul, "mul", DtypeRule::kWidest, false},
    {OpKind::kConcatChannels, "concat_channels", DtypeRule::kWidest, false},
    {OpKind::kSquaredError, "squared_error", DtypeRule::kAsInput, false},
    {OpKind::kDetectionLoss, "detection_loss", DtypeRule::kAsInput, false},
};
inline constexpr std::size_t kNumOpKinds = std::size(kOpPolicies);

/// The op that the configuration names `name`.
std::optional<OpKind> find_op(std::string_view name);

std::string_view name(PrecisionMode mode);
std::optional<PrecisionMode> find_precision_mode(std::string_view name);

/// The policy of a job: a mode and its overrides. A value, part of the Context.
class Precision {
 public:
  Precision() = default;
  explicit Precision(PrecisionMode mode) : mode_(mode) {}

  PrecisionMode mode() const { return mode_; }
  /// True if `linear` reads 8 bits of the weights that allow it.
  bool has_fp8_products() const;
  /// The dtype of working copies and of the results of kCompute ops: bf16 for kFp8.
  DType compute_dtype() const;

  /// Makes one op compute in kFp32 or, for an op with matrix products, in kTf32. Throws Error(kInvalidInput)
  /// for other modes: 16-bit modes are job-wide only.
  void override_op(OpKind op, PrecisionMode mode);

  /// The dtype that the op casts its inputs to. `input` is the dtype of its only differentiable input, or the
  /// widest of several. For an op without differentiable inputs (embedding), pass the compute dtype.
  DType dtype_of(OpKind op, DType input) const;
  /// The rounding that the op's products apply to fp32 inputs.
  MathMode math_of(OpKind op) const;

  /// The dtype in which parameter gradients are accumulated and exchanged. Within one backward of a block
  /// they are fp32.
  DType grad_dtype = DType::kFloat32;

 private:
  PrecisionMode mode_ = PrecisionMode::kFp32;
  std::array<std::optional<PrecisionMode>, kNumOpKinds> overrides_;
};

/// The wider of two floating dtypes. fp16 and bf16 give fp32, as neither represents the other.
DType wider(DType a, DType b);

}  // namespace trireme
