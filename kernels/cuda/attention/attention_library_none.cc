// The attention library of a build without cuDNN.
#include "kernels/cuda/attention/attention_library.h"
#include "runtime/base/log.h"

namespace trireme::cuda {

struct AttentionLibrary::State {
  bool told = false;

  bool refuse() {
    if (!told)
      log_info("cuda: this build has no cuDNN; attention in 16 bits runs on the slower native kernel");
    told = true;
    return false;
  }
};

AttentionLibrary::AttentionLibrary(std::shared_ptr<CudnnHandle>, std::shared_ptr<Allocator>, std::int64_t)
    : state_(std::make_unique<State>()) {}

AttentionLibrary::~AttentionLibrary() = default;

bool AttentionLibrary::exists() {
  return false;
}

bool AttentionLibrary::run_fwd(const AttentionFwdArgs&, const RepeatedHeads*) {
  return state_->refuse();
}

bool AttentionLibrary::run_bwd(const AttentionBwdArgs&, const RepeatedHeads*) {
  return state_->refuse();
}

bool AttentionLibrary::run_fwd(const CrossAttentionFwdArgs&) {
  return state_->refuse();
}

bool AttentionLibrary::run_bwd(const CrossAttentionBwdArgs&) {
  return state_->refuse();
}

}  // namespace trireme::cuda
