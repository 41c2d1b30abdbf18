// The conformance suite over NCCL: one rank per GPU, or several sharing one (one_card.sh).
#include "parallel/comm/nccl.h"

#include <cuda_runtime_api.h>
#include <fmt/core.h>

#include "runtime/base/error.h"
#include "tests/parallel/comm/conformance.h"
#include "tests/parallel/comm/mpi_main.h"
#include "tests/parallel/comm/shared_card.h"

namespace trireme {
namespace {

// Page-locked host memory, which both the card and the test can access.
class PinnedSource : public MemorySource {
 public:
  void* allocate(std::size_t bytes) override {
    void* data = nullptr;
    return cudaMallocHost(&data, bytes) == cudaSuccess ? data : nullptr;
  }
  void deallocate(void* data, std::size_t) noexcept override { (void)cudaFreeHost(data); }
  std::int64_t reserved_bytes() const override { return 0; }
};

std::vector<MpiTest> all_tests(const std::shared_ptr<Communicator>& comm) {
  std::vector<MpiTest> tests;
  for (const ConformanceCase& one : conformance_cases()) {
    tests.push_back({"NcclConformance", one.name, [run = one.run, comm] { run(*comm); }});
  }
  return tests;
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  using namespace trireme;
  const MpiSession session;
  try {
    const Device device = card_of(session);
    test_memory_kind() = {
        .device = DeviceType::kCuda,
        .make_source = []() -> std::unique_ptr<MemorySource> { return std::make_unique<PinnedSource>(); },
        .synchronize = [] { (void)cudaDeviceSynchronize(); }};
    return run_mpi_tests(argc, argv, session, all_tests(make_nccl_communicator(session.world(), device)));
  } catch (const Error& error) {
    session.world()->abort(Error(ErrorCode::kRuntime, std::string(error.what())));
    return 1;
  }
}
