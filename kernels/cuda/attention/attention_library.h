// cuDNN's fused attention for one rank, a plan per shape. In a build without cuDNN it takes nothing.
#pragma once

#include <memory>

#include "kernels/attention_workspace.h"
#include "kernels/backend.h"
#include "kernels/cuda/attention/repeated_heads.h"
#include "kernels/cuda/cudnn/cudnn_handle.h"

namespace trireme::cuda {

class AttentionLibrary {
 public:
  AttentionLibrary(std::shared_ptr<CudnnHandle> cudnn, std::shared_ptr<Allocator> allocator,
                   std::int64_t score_bytes = kAttentionScoreBytes);
  ~AttentionLibrary();
  AttentionLibrary(const AttentionLibrary&) = delete;
  AttentionLibrary& operator=(const AttentionLibrary&) = delete;

  /// False in a build without it, whose run_fwd() and run_bwd() say so once.
  static bool exists();

  /// False when the library cannot do it; results have no meaning then. 16-bit types without dropout. The
  /// first refusal of a shape is logged. Keys and values are those in `repeated`, unless it is null.
  bool run_fwd(const AttentionFwdArgs& args, const RepeatedHeads* repeated = nullptr);
  /// The same; only deterministic algorithms are taken. Grouped queries want `repeated`, whose gradients are
  /// written in place of those of k and v.
  bool run_bwd(const AttentionBwdArgs& args, const RepeatedHeads* repeated = nullptr);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme::cuda
