#include "kernels/cuda/ops.h"
#include "runtime/base/error.h"

namespace trireme::cuda {

void run_op(const KernelContext&, const CrossAttentionFwdArgs&) {
  throw Error(ErrorCode::kUnsupported, "{} has no kernel on cuda yet", CrossAttentionFwdArgs::kName);
}

void run_op(const KernelContext&, const CrossAttentionBwdArgs&) {
  throw Error(ErrorCode::kUnsupported, "{} has no kernel on cuda yet", CrossAttentionBwdArgs::kName);
}

}  // namespace trireme::cuda
