// The tables of one instruction set, each defined in the file of its name. TRIREME_ISA is the namespace that
// the build names for this compilation (see [Note: instruction sets] in kernels/cpu/numerics.h).
#pragma once

#include "kernels/cpu/numerics.h"

namespace trireme::cpu::TRIREME_ISA {

extern const ActivationNumerics activation_numerics;
extern const ElementwiseNumerics elementwise_numerics;
extern const LayerNormNumerics layer_norm_numerics;
extern const AttentionFwdNumerics attention_fwd_numerics;
extern const AttentionBwdNumerics attention_bwd_numerics;
extern const CrossEntropyNumerics cross_entropy_numerics;
extern const CastNumerics cast_numerics;
extern const GemmNumerics gemm_numerics;
extern const OptimizerNumerics optimizer_numerics;
extern const BatchNormNumerics batch_norm_numerics;
extern const PoolNumerics pool_numerics;
extern const WinogradNumerics winograd_numerics;
extern const Numerics numerics;

}  // namespace trireme::cpu::TRIREME_ISA
