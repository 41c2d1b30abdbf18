// Attention: the library's kernels for 16-bit types where it has them, the own ones for everything else.
#include "kernels/cuda/attention/attention_library.h"
#include "kernels/cuda/attention/native_attention.h"
#include "kernels/cuda/device/stream.h"
#include "kernels/cuda/ops.h"

namespace trireme::cuda {
void run_op(const KernelContext& exec, const AttentionFwdArgs& args) {
  if (suits_attention_library(args) && stream_of(exec).attention_library().run_fwd(args)) return;
  native_attention_fwd(exec, args);
}

void run_op(const KernelContext& exec, const AttentionBwdArgs& args) {
  if (suits_attention_library(args) && stream_of(exec).attention_library().run_bwd(args)) return;
  native_attention_bwd(exec, args);
}

}  // namespace trireme::cuda
