// cuDNN's fused attention for one rank, a plan per shape. In a build without cuDNN it takes nothing.
#pragma once

#include <memory>

#include "kernels/attention_workspace.h"
#include "kernels/backend.h"
#include "kernels/cuda/cudnn/cudnn_handle.h"

namespace trireme::cuda {

class AttentionLibrary {
 public:
  AttentionLibrary(std::shared_ptr<CudnnHandle> cudnn, std::shared_ptr<Allocator> allocator,
                   std::int64_t score_bytes = kAttentionScoreBytes);
  ~AttentionLibrary();
  AttentionLibrary(const AttentionLibrary&) = delete;
  AttentionLibrary& operator=(const AttentionLibrary&) = delete;

  /// False when the library cannot do it; results have no meaning then. 16-bit types without dropout. The
  /// first refusal of a shape is logged.
  bool run_fwd(const AttentionFwdArgs& args);
  /// The same; only deterministic algorithms are taken.
  bool run_bwd(const AttentionBwdArgs& args);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme::cuda
