// Copies to page-locked host memory. Each copy has its own event, so waiting for it does not wait for later
// work.
#include <cassert>

#include "kernels/cuda/device/stream.h"
#include "kernels/cuda/ops.h"

namespace trireme::cuda {
namespace {

class PinnedCopy final : public HostCopy {
 public:
  explicit PinnedCopy(std::size_t bytes) : bytes_(bytes), memory_(bytes) {}
  ~PinnedCopy() override {
    check_noexcept(cudaEventSynchronize(done_.get()), "waiting for a copy to the host");
  }
  PinnedCopy(const PinnedCopy&) = delete;
  PinnedCopy& operator=(const PinnedCopy&) = delete;

  void start(const KernelContext& exec, ConstTensorView src) override {
    const auto bytes = static_cast<std::size_t>(src.num_elems() * size_bytes(src.dtype));
    assert(bytes <= bytes_);
    const cudaStream_t stream = stream_of(exec).get();
    check(cudaMemcpyAsync(memory_.data(), src.data, bytes, cudaMemcpyDeviceToHost, stream),
          "copy to the host");
    done_.record(stream);
  }
  const void* wait() override {
    done_.wait();
    return memory_.data();
  }

 private:
  [[maybe_unused]] const std::size_t bytes_;
  PinnedMemory memory_;
  Event done_;
};

}  // namespace

std::unique_ptr<HostCopy> make_host_copy(const KernelContext&, std::size_t bytes) {
  return std::make_unique<PinnedCopy>(bytes);
}

}  // namespace trireme::cuda
