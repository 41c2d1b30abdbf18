// The convolution library of a build without cuDNN.
#include "kernels/cuda/conv/conv_library.h"
#include "runtime/base/log.h"

namespace trireme::cuda {

struct ConvLibrary::State {
  bool told = false;

  bool refuse() {
    if (!told) log_info("cuda: this build has no cuDNN; convolutions run on the slower native kernels");
    told = true;
    return false;
  }
};

ConvLibrary::ConvLibrary(std::shared_ptr<CudnnHandle>) : state_(std::make_unique<State>()) {}

ConvLibrary::~ConvLibrary() = default;

bool ConvLibrary::run_fwd(const KernelContext&, const Conv2dFwdArgs&) {
  return state_->refuse();
}

bool ConvLibrary::run_bwd_data(const KernelContext&, const Conv2dBwdDataArgs&) {
  return state_->refuse();
}

bool ConvLibrary::run_bwd_weight(const KernelContext&, const Conv2dBwdWeightArgs&) {
  return state_->refuse();
}

}  // namespace trireme::cuda
