// Checks that the emulation rejects what a card rejects. An emulation that accepts everything would prove
// nothing.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace trireme {
namespace {

void nothing_kernel() {}
void other_kernel() {}

cudaError_t launch(dim3 grid, dim3 block, std::size_t shared_bytes, void (*kernel)() = nothing_kernel) {
  const cudaLaunchConfig_t config{.gridDim = grid, .blockDim = block, .dynamicSmemBytes = shared_bytes};
  return cudaLaunchKernelEx(&config, kernel);
}

TEST(EmulatedLimits, GridsAndBlocks) {
  EXPECT_EQ(launch({1, 65535, 1}, 32, 0), cudaSuccess);
  for (const dim3 grid : {dim3(0), dim3(1, 65536), dim3(1, 1, 65536), dim3(0x80000000u)}) {
    EXPECT_EQ(launch(grid, 32, 0), cudaErrorInvalidConfiguration);
  }
  for (const dim3 block : {dim3(0), dim3(1056), dim3(1, 8, 128)}) {
    EXPECT_EQ(launch(1, block, 0), cudaErrorInvalidConfiguration);
  }
}

TEST(EmulatedLimits, SharedMemoryIsAskedForByEachKernel) {
  constexpr std::size_t kAll = 227 * 1024, kDefault = 48 * 1024;
  const auto ask = [](std::size_t bytes) {
    return cudaFuncSetAttribute(reinterpret_cast<const void*>(nothing_kernel),
                                cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  };
  EXPECT_EQ(launch(1, 32, kDefault), cudaSuccess);
  EXPECT_EQ(launch(1, 32, kDefault + 16), cudaErrorInvalidValue);
  EXPECT_EQ(ask(kAll + 16), cudaErrorInvalidValue);
  EXPECT_EQ(ask(kAll), cudaSuccess);
  EXPECT_EQ(launch(1, 32, kAll), cudaSuccess);
  EXPECT_EQ(launch(1, 32, kAll, other_kernel), cudaErrorInvalidValue);
}

cudaError_t launch_clusters(dim3 grid, unsigned cluster, void (*kernel)() = nothing_kernel) {
  cudaLaunchAttribute attribute{.id = cudaLaunchAttributeClusterDimension,
                                .val = {.clusterDim = {.x = cluster, .y = 1, .z = 1}}};
  const cudaLaunchConfig_t config{
      .gridDim = grid, .blockDim = 32, .dynamicSmemBytes = 128, .attrs = &attribute, .numAttrs = 1};
  return cudaLaunchKernelEx(&config, kernel);
}

TEST(EmulatedLimits, Clusters) {
  EXPECT_EQ(launch_clusters(16, 8), cudaSuccess);
  EXPECT_EQ(launch_clusters(16, 16), cudaErrorInvalidClusterSize);
  EXPECT_EQ(launch_clusters(12, 8), cudaErrorInvalidClusterSize);
  emulation::compute_capability() = 89;
  EXPECT_EQ(launch_clusters(16, 8), cudaErrorInvalidClusterSize);
  emulation::compute_capability() = 90;
}

// Each block adds the numbers of its cluster.
template <bool kWaitsAtTheEnd>
void sum_of_cluster_kernel() {
  auto* const own = reinterpret_cast<unsigned*>(emulated_dynamic_shared());
  if (threadIdx.x == 0) own[0] = blockIdx.x;
  emulation::cluster_barrier();
  unsigned sum = 0;
  for (unsigned rank = 0; rank < 4; ++rank) {
    sum += *static_cast<const unsigned*>(emulation::cluster_shared(own, rank));
  }
  if (sum != blockIdx.x / 4 * 16 + 6) std::abort();
  if (kWaitsAtTheEnd) emulation::cluster_barrier();
}

TEST(EmulatedLimitsDeathTest, ABlockOfAClusterOutlivesItsReaders) {
  EXPECT_EQ(launch_clusters(8, 4, sum_of_cluster_kernel<true>), cudaSuccess);
  EXPECT_DEATH(launch_clusters(8, 4, sum_of_cluster_kernel<false>), "of a block that has ended");
}

TEST(EmulatedLimits, RecordedStreams) {
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  void* data = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&data, 64), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), cudaSuccess);
  int source = 0;
  EXPECT_EQ(cudaMemcpyAsync(data, &source, 4, cudaMemcpyHostToDevice, stream),
            cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaFree(data), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaEventRecord(event, stream), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorCapturedEvent);
  EXPECT_EQ(cudaEventSynchronize(event), cudaErrorCapturedEvent);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event, stream), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaFree(data), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

// See [Note: device memory is out of reach].
TEST(EmulatedLimitsDeathTest, TheHostDoesNotReachDeviceMemory) {
  if (!emulation::guards_device_memory()) GTEST_SKIP() << "this processor has no protection keys";
  void* data = nullptr;
  ASSERT_EQ(cudaMalloc(&data, 64), cudaSuccess);
  auto* const number = static_cast<volatile int*>(data);
  {
    const emulation::DeviceAccess access;
    *number = 7;
  }
  EXPECT_DEATH(*number = 8, "");
  EXPECT_DEATH((void)*number, "");
  int copied = 0;
  EXPECT_EQ(cudaMemcpyAsync(&copied, data, 4, cudaMemcpyDeviceToHost, nullptr), cudaSuccess);
  EXPECT_EQ(copied, 7);
  EXPECT_EQ(cudaFree(data), cudaSuccess);
}

}  // namespace
}  // namespace trireme
