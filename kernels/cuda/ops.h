// The entries of the cuda table, one file each. Contracts: kernels/backend.h.
#pragma once

#include "kernels/backend.h"

namespace trireme::cuda {

void copy_from_host(const KernelContext& exec, TensorView dst, const void* src);
std::unique_ptr<HostCopy> make_host_copy(const KernelContext& exec, std::size_t bytes);
void copy_to_host(const KernelContext& exec, void* dst, ConstTensorView src);
void copy(const KernelContext& exec, TensorView dst, ConstTensorView src);
void fill_zero(const KernelContext& exec, TensorView dst);

void run_op(const KernelContext& exec, const MatmulArgs& args);
void run_op(const KernelContext& exec, const ColumnSumArgs& args);
void run_op(const KernelContext& exec, const ActivationBwdArgs& args);
void run_op(const KernelContext& exec, const LayerNormFwdArgs& args);
void run_op(const KernelContext& exec, const LayerNormBwdArgs& args);
void run_op(const KernelContext& exec, const AttentionFwdArgs& args);
void run_op(const KernelContext& exec, const AttentionBwdArgs& args);
void run_op(const KernelContext& exec, const EmbeddingFwdArgs& args);
void run_op(const KernelContext& exec, const EmbeddingBwdArgs& args);
void run_op(const KernelContext& exec, const DropoutArgs& args);
void run_op(const KernelContext& exec, const SoftmaxCrossEntropyArgs& args);
void run_op(const KernelContext& exec, const Conv2dFwdArgs& args);
void run_op(const KernelContext& exec, const Conv2dBwdDataArgs& args);
void run_op(const KernelContext& exec, const Conv2dBwdWeightArgs& args);
void run_op(const KernelContext& exec, const BatchNormFwdArgs& args);
void run_op(const KernelContext& exec, const BatchNormInferArgs& args);
void run_op(const KernelContext& exec, const BatchNormBwdArgs& args);
void run_op(const KernelContext& exec, const ReluArgs& args);
void run_op(const KernelContext& exec, const ReluBwdArgs& args);
void run_op(const KernelContext& exec, const MaxPoolFwdArgs& args);
void run_op(const KernelContext& exec, const MaxPoolBwdArgs& args);
void run_op(const KernelContext& exec, const AvgPoolFwdArgs& args);
void run_op(const KernelContext& exec, const AvgPoolBwdArgs& args);
void run_op(const KernelContext& exec, const MoveAverageArgs& args);
void run_op(const KernelContext& exec, const CastArgs& args);
void run_op(const KernelContext& exec, const AddArgs& args);
void run_op(const KernelContext& exec, const ScaleArgs& args);
void run_op(const KernelContext& exec, const SquaredNormBlocksArgs& args);
void run_op(const KernelContext& exec, const ClipCoefficientArgs& args);
void run_op(const KernelContext& exec, const UpdateLossScaleArgs& args);
void run_op(const KernelContext& exec, const AdamWArgs& args);
void run_op(const KernelContext& exec, const SgdArgs& args);

}  // namespace trireme::cuda
