// The part of the CUDA runtime and of CUDA C++ that kernels/cuda uses, on the host. Device memory is host
// memory. Streams run their work immediately, except held streams and ones with a StreamThread. Kernels run
// as described in [Note: emulated blocks] in emulation.h. So native kernels are tested without a GPU, also
// under AddressSanitizer.
#pragma once

#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/kernels/cuda/emulation/emulation.h"
#include "tests/kernels/cuda/emulation/stream_thread.h"

#define __host__
#define __device__
#define __global__
#define __launch_bounds__(...)
#define __shared__ static thread_local

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

struct alignas(16) float4 {
  float x, y, z, w;
};

// As CUDA declares them for kernels.
using std::isfinite;
using std::isnan;

// The indices of the running thread of a block.
extern constinit thread_local ::emulation::Index threadIdx, blockIdx, blockDim, gridDim;

inline void __syncthreads() {
  ::emulation::block_barrier();
}
inline void __syncwarp(unsigned = 0xffffffffu) {
  ::emulation::warp_barrier();
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int lane_mask) {
  static_assert(sizeof(T) <= 8);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = ::emulation::exchange(bits, lane_mask);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}
inline int atomicAdd(int* address, int value) {
  const int old = *address;
  *address += value;
  return old;
}
inline int atomicMax(int* address, int value) {
  const int old = *address;
  if (value > old) *address = value;
  return old;
}
inline int atomicCAS(int* address, int compare, int value) {
  const int old = *address;
  if (old == compare) *address = value;
  return old;
}
inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline float __fadd_rn(float a, float b) {
  return a + b;
}
/// Computes the lane's part of mma.m16n8k8 of tf32: see mma_tf32 in kernels/cuda/attention/tf32_mma.cuh.
void emulated_mma_tf32(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]);
/// Computes the lane's part of mma.m16n8k16 of fp16 or bf16: see mma_16_bit in
/// kernels/cuda/sixteen_bit_mma.cuh.
void emulated_mma_16_bit(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                         bool is_half);
inline float* emulated_dynamic_shared() {
  return static_cast<float*>(::emulation::dynamic_shared());
}

// Runtime.
enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorCudartUnloading = 4,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorNotReady = 600,
  cudaErrorIllegalAddress = 700,
  cudaErrorMisalignedAddress = 716,
  cudaErrorLaunchFailure = 719,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorCapturedEvent = 907,
  cudaErrorInvalidClusterSize = 912,
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
enum cudaDeviceAttr {
  cudaDevAttrMaxSharedMemoryPerBlockOptin,
  cudaDevAttrComputeCapabilityMajor,
  cudaDevAttrComputeCapabilityMinor
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };
inline constexpr unsigned cudaStreamNonBlocking = 1, cudaEventDefault = 0, cudaEventDisableTiming = 2;

// A graph is the list of items that were enqueued while its stream was recorded.
struct CUstream_st;
// The work of the streams, in the order of the host's calls. Event marks are numbers; each launch has its
// own.
struct EmulatedRecording {
  enum class Kind { kWork, kRecordMark, kAwaitMark };
  struct Item {
    CUstream_st* stream;  // null: the stream that the graph is launched on
    Kind kind = Kind::kWork;
    std::function<void()> work = {};
    std::size_t mark = 0;
  };
  CUstream_st* origin = nullptr;
  std::vector<CUstream_st*> forked;
  std::vector<Item> items;
  std::size_t num_marks = 0;

  Item& add(CUstream_st* stream) { return items.emplace_back(Item{stream == origin ? nullptr : stream}); }
};
struct CUgraph_st {
  std::shared_ptr<EmulatedRecording> recording;
};
struct CUgraphExec_st {
  std::shared_ptr<EmulatedRecording> recording;
};
// An event's state: how often it has been recorded, and how many of these records the stream has reached.
struct EmulatedEventState {
  std::atomic<long> recorded = 0, reached = 0;
  std::atomic<double> us = 0;     // clock time when it was last reached
  CUstream_st* stream = nullptr;  // of the last record
};
struct EmulatedItem {
  std::function<void()> run;
  std::shared_ptr<EmulatedEventState> awaited;  // null: nothing
  long record = 0;                              // of `awaited`
  bool is_ready() const { return !awaited || awaited->reached >= record; }
};
struct CUstream_st {
  std::shared_ptr<EmulatedRecording> recording;       // null: not recording
  std::unique_ptr<::emulation::StreamThread> thread;  // null: runs immediately
  bool is_held = false;                               // or runs when something waits for it
  std::deque<EmulatedItem> waiting;
};
struct CUevent_st {
  std::shared_ptr<EmulatedEventState> state = std::make_shared<EmulatedEventState>();
  std::shared_ptr<::emulation::StreamMark> mark;  // for a stream with a thread
  bool is_captured = false;                       // its last record is part of a graph
  std::weak_ptr<EmulatedRecording> recording;     // that graph, while it is being recorded
  std::size_t recorded_mark = 0;                  // index in the graph
};
using cudaStream_t = CUstream_st*;
using cudaEvent_t = CUevent_st*;
using cudaGraph_t = CUgraph_st*;
using cudaGraphExec_t = CUgraphExec_st*;
enum cudaStreamCaptureMode { cudaStreamCaptureModeRelaxed = 2 };
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone, cudaStreamCaptureStatusActive };

/// Streams recorded by the calling thread.
int& emulated_streams_recorded();
/// For an event whose last record is part of a graph.
cudaError_t emulated_await_captured(cudaStream_t stream, const CUevent_st& event);
cudaError_t emulated_record_captured(cudaStream_t stream, CUevent_st& event);

/// Appends an item to a stream, and runs all items that need not wait.
void emulated_append(cudaStream_t stream, EmulatedItem item);

/// Runs `work` immediately, in the stream's thread, when the graph being recorded is launched, or when the
/// held stream reaches it. Only this work can access device memory.
inline void emulated_enqueue(cudaStream_t stream, std::function<void()> on_card) {
  if (stream != nullptr && stream->recording) {
    stream->recording->add(stream).work = std::move(on_card);
    return;
  }
  auto work = [on_card = std::move(on_card)] {
    const ::emulation::DeviceAccess access;
    on_card();
  };
  if (stream != nullptr && stream->thread) {
    stream->thread->add(std::move(work));
  } else if (stream == nullptr || (!stream->is_held && stream->waiting.empty())) {
    work();
  } else {
    emulated_append(stream, {.run = std::move(work), .awaited = nullptr});
  }
}
/// Makes the stream run concurrently with the host from now on.
inline void emulated_give_thread(cudaStream_t stream) {
  if (!stream->thread) stream->thread = std::make_unique<::emulation::StreamThread>();
}

enum cudaLaunchAttributeID { cudaLaunchAttributeClusterDimension = 4 };
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  struct {
    struct {
      unsigned x, y, z;
    } clusterDim;
  } val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  std::size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
  cudaLaunchAttribute* attrs = nullptr;
  unsigned numAttrs = 0;
};

cudaError_t cudaMalloc(void** data, std::size_t bytes);
cudaError_t cudaFree(void* data);
cudaError_t cudaMallocHost(void** data, std::size_t bytes);
cudaError_t cudaFreeHost(void* data);
cudaError_t cudaMemcpyAsync(void* dst, const void* src, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* dst, int value, std::size_t bytes, cudaStream_t stream);
struct cudaDeviceProp {
  char name[256];
  int major, minor, multiProcessorCount;
  std::size_t totalGlobalMem;
};
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total);
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int device);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaRuntimeGetVersion(int* version);
cudaError_t cudaGetLastError();
const char* cudaGetErrorString(cudaError_t error);
const char* cudaGetErrorName(cudaError_t error);

/// Blocks of a cluster, which are neighbours along x.
inline unsigned emulated_cluster_of(const cudaLaunchConfig_t& config) {
  return config.numAttrs > 0 ? config.attrs->val.clusterDim.x : 1;
}
/// A card's response to a launch: checks the limits of grids, blocks, clusters and dynamic shared memory.
cudaError_t emulated_check_launch(const cudaLaunchConfig_t& config, const void* kernel);

template <class... Params, class... Args>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Params...), Args&&... args) {
  const cudaError_t verdict = emulated_check_launch(*config, reinterpret_cast<const void*>(kernel));
  if (verdict != cudaSuccess) return verdict;
  emulated_enqueue(config->stream, [launch = *config, cluster = emulated_cluster_of(*config), kernel,
                                    params = std::tuple<Params...>(std::forward<Args>(args)...)] {
    ::emulation::run_grid({launch.gridDim.x, launch.gridDim.y, launch.gridDim.z},
                          {launch.blockDim.x, launch.blockDim.y, launch.blockDim.z}, cluster,
                          launch.dynamicSmemBytes, [&] { std::apply(kernel, params); });
  });
  ++::emulation::counts().launches;
  if (config->numAttrs > 0) ++::emulation::counts().clusters;
  return cudaSuccess;
}
