// The meta backend: a device whose memory is addresses that are never touched and whose kernels do nothing.
// Running blocks on it counts bytes and checks shapes (see [Note: memory accounting]).
#include <cstring>

#include "kernels/attention_workspace.h"
#include "kernels/backend.h"
#include "kernels/lstm_workspace.h"
#include "kernels/product_workspace.h"

namespace trireme {
namespace {

/// Hands out distinct multiples of Allocator::kAlignment, as a device of unlimited size would.
class MetaMemorySource final : public MemorySource {
 public:
  void* allocate(std::size_t bytes) override {
    void* data = reinterpret_cast<void*>(next_);
    next_ += bytes;
    live_bytes_ += static_cast<std::int64_t>(bytes);
    return data;
  }
  void deallocate(void*, std::size_t bytes) noexcept override {
    live_bytes_ -= static_cast<std::int64_t>(bytes);
  }
  std::int64_t reserved_bytes() const override { return live_bytes_; }

 private:
  // No process maps these addresses, so a stray access faults.
  std::uintptr_t next_ = kFirstMetaAddress;
  std::int64_t live_bytes_ = 0;
};

std::unique_ptr<MemorySource> make_memory_source(Device) {
  return std::make_unique<MetaMemorySource>();
}

template <class... Args>
void nothing(const KernelContext&, Args...) {}

void zeros_to_host(const KernelContext&, void* dst, ConstTensorView src) {
  std::memset(dst, 0, static_cast<std::size_t>(src.num_elems() * size_bytes(src.dtype)));
}

void count_workspace(const KernelContext& exec, std::int64_t num_bytes) {
  const auto bytes = static_cast<std::size_t>(num_bytes);
  if (bytes == 0) return;
  void* const data = exec.allocator->allocate(bytes, MemoryCategory::kWorkspace);
  exec.allocator->deallocate(data, bytes, MemoryCategory::kWorkspace);
}

Backend with_workspaces_of_cuda() {
  Backend backend = meta_backend();
  backend.logits_alignment = kCudaLogitsAlignment;
  backend.ops.set<AttentionBwdArgs>([](const KernelContext& exec, const AttentionBwdArgs& args) {
    count_workspace(exec, attention_bwd_workspace(args));
  });
  backend.ops.set<CrossAttentionBwdArgs>([](const KernelContext& exec, const CrossAttentionBwdArgs& args) {
    count_workspace(exec, attention_bwd_workspace(args));
  });
  backend.ops.set<MatmulArgs>([](const KernelContext& exec, const MatmulArgs& args) {
    count_workspace(exec, matmul_workspace(args));
  });
  backend.ops.set<QuantizeArgs>([](const KernelContext& exec, const QuantizeArgs& args) {
    count_workspace(exec, codes_workspace(args.out));
  });
  backend.ops.set<SwigluFwdArgs>([](const KernelContext& exec, const SwigluFwdArgs& args) {
    count_workspace(exec, codes_workspace(args.out));
  });
  backend.ops.set<SwigluBwdArgs>([](const KernelContext& exec, const SwigluBwdArgs& args) {
    count_workspace(exec, codes_workspace(args.out));
  });
  backend.ops.set<EmbeddingBwdArgs>([](const KernelContext& exec, const EmbeddingBwdArgs& args) {
    count_workspace(exec, embedding_bwd_workspace(args));
  });
  backend.ops.set<LstmFwdArgs>([](const KernelContext& exec, const LstmFwdArgs& args) {
    count_workspace(exec, lstm_workspace(args));
  });
  backend.ops.set<LstmBwdArgs>([](const KernelContext& exec, const LstmBwdArgs& args) {
    count_workspace(exec, lstm_workspace(args));
  });
  backend.ops.set<ProductSumArgs>([](const KernelContext& exec, const ProductSumArgs& args) {
    count_workspace(exec, product_sum_workspace(args));
  });
  backend.ops.set<Conv2dFwdArgs>([](const KernelContext& exec, const Conv2dFwdArgs& args) {
    count_workspace(exec, conv_workspace(args));
  });
  backend.ops.set<Conv2dBwdDataArgs>([](const KernelContext& exec, const Conv2dBwdDataArgs& args) {
    count_workspace(exec, conv_workspace(args));
  });
  backend.ops.set<Conv2dBwdWeightArgs>([](const KernelContext& exec, const Conv2dBwdWeightArgs& args) {
    count_workspace(exec, conv_workspace(args));
  });
  return backend;
}

}  // namespace

const Backend& meta_backend_for(DeviceType type) {
  static const Backend of_cuda = with_workspaces_of_cuda();
  return type == DeviceType::kCuda ? of_cuda : meta_backend();
}

const Backend& meta_backend() {
  static constexpr Backend kBackend{
      .name = "meta",
      .make_memory_source = make_memory_source,
      .copy_from_host = nothing,
      .copy_to_host = zeros_to_host,
      .copy = nothing,
      .fill_zero = nothing,
      .synchronize = nothing,
      .bind_thread = nothing,
      .ops = OpTable<AllOps>::filled_by(
          []<class Args>(Op<Args>) -> Kernel<Args> { return nothing<const Args&>; }),
  };
  return kBackend;
}

}  // namespace trireme
