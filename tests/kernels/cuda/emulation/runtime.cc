// The runtime calls of the emulation.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <mutex>

#include "tests/kernels/cuda/emulation/emulation.h"

namespace {

struct DeviceMemory {
  std::mutex mutex;
  std::map<void*, std::size_t> blocks;
  std::size_t bytes = 0;
  std::size_t limit = std::numeric_limits<std::size_t>::max();
  int device_count = 1;
};

DeviceMemory& device_memory() {
  static DeviceMemory memory;
  return memory;
}

thread_local int current_device = 0;

constexpr std::size_t kMallocAlignment = 512;

}  // namespace

namespace emulation {

void set_memory_limit(std::size_t bytes) {
  const std::lock_guard lock(device_memory().mutex);
  device_memory().limit = bytes;
}

void set_device_count(int count) {
  const std::lock_guard lock(device_memory().mutex);
  device_memory().device_count = count;
}

std::size_t allocated_bytes() {
  const std::lock_guard lock(device_memory().mutex);
  return device_memory().bytes;
}

}  // namespace emulation

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  DeviceMemory& memory = device_memory();
  const std::lock_guard lock(memory.mutex);
  const std::size_t size = (bytes + kMallocAlignment - 1) / kMallocAlignment * kMallocAlignment;
  if (size > memory.limit - std::min(memory.bytes, memory.limit)) return cudaErrorMemoryAllocation;
  *data = std::aligned_alloc(kMallocAlignment, size);
  if (*data == nullptr) return cudaErrorMemoryAllocation;
  memory.blocks[*data] = size;
  memory.bytes += size;
  return cudaSuccess;
}

cudaError_t cudaFree(void* data) {
  DeviceMemory& memory = device_memory();
  const std::lock_guard lock(memory.mutex);
  const auto block = memory.blocks.find(data);
  if (block == memory.blocks.end()) return cudaErrorIllegalAddress;
  memory.bytes -= block->second;
  memory.blocks.erase(block);
  std::free(data);
  return cudaSuccess;
}

cudaError_t cudaMallocHost(void** data, std::size_t bytes) {
  *data = std::malloc(bytes);
  return *data == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

cudaError_t cudaFreeHost(void* data) {
  std::free(data);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* dst, const void* src, std::size_t bytes, cudaMemcpyKind, cudaStream_t) {
  std::memmove(dst, src, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* dst, int value, std::size_t bytes, cudaStream_t) {
  std::memset(dst, value, bytes);
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  const std::lock_guard lock(device_memory().mutex);
  *count = device_memory().device_count;
  return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {
      .name = "emulated", .major = 9, .minor = 0, .multiProcessorCount = 1, .totalGlobalMem = 1u << 30};
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  const std::lock_guard lock(device_memory().mutex);
  if (device < 0 || device >= device_memory().device_count) return cudaErrorInvalidDevice;
  current_device = device;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = 227 * 1024;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) {
  return cudaSuccess;
}
// Every new stream has its kernels run in another order.
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  thread_local int count = 0;
  emulation::set_order(static_cast<emulation::Order>(count++ % 3));
  *stream = new CUstream_st;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) {
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) {
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) {
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t) {
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t) {
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "out of memory"
         : error == cudaErrorNoDevice       ? "no device"
                                            : "error";
}
const char* cudaGetErrorName(cudaError_t) {
  return "emulated";
}
