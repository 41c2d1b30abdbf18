// cuDNN's fused attention for one rank, with one plan per shape. In a build without cuDNN every call is
// refused.
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

  /// False in a build without cuDNN. There, run_fwd() and run_bwd() warn once.
  static bool exists();

  /// Runs 16-bit attention without dropout. Returns false if cuDNN cannot; results are then undefined. The
  /// first refusal of a shape is logged. Keys and values come from `repeated` unless it is null.
  bool run_fwd(const AttentionFwdArgs& args, const RepeatedHeads* repeated = nullptr);
  bool run_fwd(const CrossAttentionFwdArgs& args);
  /// Same as run_fwd(), with deterministic algorithms only. `repeated` receives the gradients of its keys and
  /// values.
  bool run_bwd(const AttentionBwdArgs& args, const RepeatedHeads* repeated = nullptr);
  bool run_bwd(const CrossAttentionBwdArgs& args);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme::cuda
