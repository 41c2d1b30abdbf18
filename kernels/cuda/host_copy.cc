// Copies to page-locked host memory, each with an event of its own: what is enqueued behind one need not be
// waited for.
#include <cassert>

#include "kernels/cuda/ops.h"
#include "kernels/cuda/stream.h"

namespace trireme::cuda {
namespace {

class PinnedCopy final : public HostCopy {
 public:
  explicit PinnedCopy(std::size_t bytes) : bytes_(bytes) {
    check(cudaMallocHost(&data_, bytes), "cudaMallocHost");
  }
  ~PinnedCopy() override {
    check_noexcept(cudaEventSynchronize(done_.get()), "waiting for a copy to the host");
    check_noexcept(cudaFreeHost(data_), "cudaFreeHost");
  }
  PinnedCopy(const PinnedCopy&) = delete;
  PinnedCopy& operator=(const PinnedCopy&) = delete;

  void start(const KernelContext& exec, ConstTensorView src) override {
    const auto bytes = static_cast<std::size_t>(src.num_elems() * size_bytes(src.dtype));
    assert(bytes <= bytes_);
    const cudaStream_t stream = stream_of(exec).get();
    check(cudaMemcpyAsync(data_, src.data, bytes, cudaMemcpyDeviceToHost, stream), "copy to the host");
    done_.record(stream);
  }
  const void* wait() override {
    done_.wait();
    return data_;
  }

 private:
  [[maybe_unused]] const std::size_t bytes_;
  void* data_ = nullptr;
  Event done_;
};

}  // namespace

std::unique_ptr<HostCopy> make_host_copy(const KernelContext&, std::size_t bytes) {
  return std::make_unique<PinnedCopy>(bytes);
}

}  // namespace trireme::cuda
