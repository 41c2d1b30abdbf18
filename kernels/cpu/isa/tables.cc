#include "kernels/cpu/numerics.h"

#define TRIREME_STRINGIZE(x) #x
#define TRIREME_NAME_OF(x) TRIREME_STRINGIZE(x)

namespace trireme::cpu::TRIREME_ISA {

const Numerics numerics{
    .isa = TRIREME_NAME_OF(TRIREME_ISA),
    .activation = &activation_numerics,
    .elementwise = &elementwise_numerics,
    .layer_norm = &layer_norm_numerics,
    .attention_fwd = &attention_fwd_numerics,
    .attention_bwd = &attention_bwd_numerics,
    .cross_entropy = &cross_entropy_numerics,
    .cast = &cast_numerics,
    .gemm = &gemm_numerics,
    .optimizer = &optimizer_numerics,
    .batch_norm = &batch_norm_numerics,
    .pool = &pool_numerics,
    .winograd = &winograd_numerics,
    .lstm = &lstm_numerics,
    .bf16_gemm = &gemm_numerics,
};

}  // namespace trireme::cpu::TRIREME_ISA
