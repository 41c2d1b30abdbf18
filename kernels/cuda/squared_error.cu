#include "kernels/cuda/ops.h"
#include "runtime/base/error.h"

namespace trireme::cuda {

void run_op(const KernelContext&, const SquaredErrorArgs&) {
  throw Error(ErrorCode::kUnsupported, "{} has no kernel on cuda yet", SquaredErrorArgs::kName);
}

}  // namespace trireme::cuda
