// The entries of the cpu table, one file each (see kernels/README.md). Contracts: kernels/backend.h.
#pragma once

#include "kernels/backend.h"

namespace trireme::cpu {

std::map<std::string, std::string> arithmetic();

void copy_from_host(const KernelContext& exec, TensorView dst, const void* src);
void copy_to_host(const KernelContext& exec, void* dst, ConstTensorView src);
void copy(const KernelContext& exec, TensorView dst, ConstTensorView src);
void fill_zero(const KernelContext& exec, TensorView dst);

void matmul(const KernelContext& exec, const MatmulArgs& args);
void column_sum(const KernelContext& exec, const ColumnSumArgs& args);
void activation_bwd(const KernelContext& exec, const ActivationBwdArgs& args);
void layer_norm_fwd(const KernelContext& exec, const LayerNormFwdArgs& args);
void layer_norm_bwd(const KernelContext& exec, const LayerNormBwdArgs& args);
void attention_fwd(const KernelContext& exec, const AttentionFwdArgs& args);
void attention_bwd(const KernelContext& exec, const AttentionBwdArgs& args);
void embedding_fwd(const KernelContext& exec, const EmbeddingFwdArgs& args);
void embedding_bwd(const KernelContext& exec, const EmbeddingBwdArgs& args);
void dropout(const KernelContext& exec, const DropoutArgs& args);
void softmax_cross_entropy(const KernelContext& exec, const SoftmaxCrossEntropyArgs& args);
void conv2d_fwd(const KernelContext& exec, const Conv2dFwdArgs& args);
void conv2d_bwd_data(const KernelContext& exec, const Conv2dBwdDataArgs& args);
void conv2d_bwd_weight(const KernelContext& exec, const Conv2dBwdWeightArgs& args);
void batch_norm_fwd(const KernelContext& exec, const BatchNormFwdArgs& args);
void batch_norm_infer(const KernelContext& exec, const BatchNormInferArgs& args);
void batch_norm_bwd(const KernelContext& exec, const BatchNormBwdArgs& args);
void relu(const KernelContext& exec, const ReluArgs& args);
void relu_bwd(const KernelContext& exec, const ReluBwdArgs& args);
void max_pool_fwd(const KernelContext& exec, const MaxPoolFwdArgs& args);
void max_pool_bwd(const KernelContext& exec, const MaxPoolBwdArgs& args);
void avg_pool_fwd(const KernelContext& exec, const AvgPoolFwdArgs& args);
void avg_pool_bwd(const KernelContext& exec, const AvgPoolBwdArgs& args);
void move_average(const KernelContext& exec, const MoveAverageArgs& args);
void add(const KernelContext& exec, const AddArgs& args);
void cast(const KernelContext& exec, const CastArgs& args);
void scale(const KernelContext& exec, const ScaleArgs& args);
void squared_norm_blocks(const KernelContext& exec, const SquaredNormBlocksArgs& args);
void clip_coefficient(const KernelContext& exec, const ClipCoefficientArgs& args);
void update_loss_scale(const KernelContext& exec, const UpdateLossScaleArgs& args);
void adamw(const KernelContext& exec, const AdamWArgs& args);
void sgd(const KernelContext& exec, const SgdArgs& args);

}  // namespace trireme::cpu
