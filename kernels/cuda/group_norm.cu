#include "kernels/cuda/ops.h"
#include "runtime/base/error.h"

namespace trireme::cuda {

void run_op(const KernelContext&, const GroupNormFwdArgs&) {
  throw Error(ErrorCode::kUnsupported, "{} has no kernel on cuda yet", GroupNormFwdArgs::kName);
}

void run_op(const KernelContext&, const GroupNormBwdArgs&) {
  throw Error(ErrorCode::kUnsupported, "{} has no kernel on cuda yet", GroupNormBwdArgs::kName);
}

}  // namespace trireme::cuda
