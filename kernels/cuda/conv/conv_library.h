// cuDNN's convolutions for one rank, with one plan per shape. In a build without cuDNN every call is refused.
#pragma once

#include <memory>

#include "kernels/backend.h"
#include "kernels/cuda/cudnn/cudnn_handle.h"

namespace trireme::cuda {

class ConvLibrary {
 public:
  explicit ConvLibrary(std::shared_ptr<CudnnHandle> cudnn);
  ~ConvLibrary();
  ConvLibrary(const ConvLibrary&) = delete;
  ConvLibrary& operator=(const ConvLibrary&) = delete;

  // Return false if cuDNN cannot compute the call; results are then untouched. dtypes have been checked, and
  // results have elements. The first refusal of a shape is logged. Only deterministic algorithms are used.
  bool run_fwd(const KernelContext& exec, const Conv2dFwdArgs& args);
  bool run_bwd_data(const KernelContext& exec, const Conv2dBwdDataArgs& args);
  bool run_bwd_weight(const KernelContext& exec, const Conv2dBwdWeightArgs& args);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme::cuda
