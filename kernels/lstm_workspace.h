// The workspace of an LSTM on cuda. It depends on the shapes alone. kernels/cuda allocates it, and the meta
// backend counts it when it predicts the memory of a CUDA job.
#pragma once

#include "kernels/backend_recurrent_ops.h"
#include "kernels/product_workspace.h"

namespace trireme {

/// Bytes of one step's rows of `cols` fp32 elements, one row for each sample of `c` [B, T, H].
inline std::int64_t lstm_step_bytes(const ConstTensorView& c, std::int64_t cols) {
  return c.shape[0] * cols * std::int64_t{sizeof(float)};
}

/// The recurrent product of a step.
inline std::int64_t lstm_workspace(const LstmFwdArgs& args) {
  const bool has_product = args.h0.defined() || args.c.shape[1] > 1;
  if (args.c.num_elems() == 0 || !has_product) return 0;
  return charged_bytes(lstm_step_bytes(args.c, args.w_hh.shape[0]));
}

/// The gradients of a step's cells, and of its output from the step after it.
inline std::int64_t lstm_workspace(const LstmBwdArgs& args) {
  if (args.c.num_elems() == 0) return 0;
  const std::int64_t bytes = charged_bytes(lstm_step_bytes(args.c, args.w_hh.shape[1]));
  return (args.dc0.defined() ? 0 : bytes) + (args.c.shape[1] > 1 ? bytes : 0);
}

}  // namespace trireme
