// The runtime calls of the emulation.
#include <cuda_runtime.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <memory>
#include <mutex>

#include "tests/kernels/cuda/emulation/emulation.h"
#include "tests/kernels/cuda/emulation/event_times.h"

namespace {

struct DeviceMemory {
  std::mutex mutex;
  std::map<void*, std::size_t> blocks;
  std::size_t bytes = 0;
  std::size_t limit = std::numeric_limits<std::size_t>::max();
  int device_count = 1;
  int driver_version = 13000;
};

DeviceMemory& device_memory() {
  static DeviceMemory memory;
  return memory;
}

// The key of device memory; negative if the processor has no protection keys. Threads begin without access.
int protection_key() {
  static const int key = pkey_alloc(0, PKEY_DISABLE_ACCESS);
  return key;
}

constexpr std::size_t kPage = 4096;

// Maps whole pages, followed by an inaccessible one. Null when there is no room.
void* map_pages(std::size_t bytes) {
  void* data = mmap(nullptr, bytes + kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  constexpr int kReadWrite = PROT_READ | PROT_WRITE;
  const int key = protection_key();
  if ((key < 0 ? mprotect(data, bytes, kReadWrite) : pkey_mprotect(data, bytes, kReadWrite, key)) == 0)
    return data;
  munmap(data, bytes + kPage);
  return nullptr;
}

// The shared memory that kernels may have: by default, and on request.
constexpr std::size_t kDefaultSharedBytes = 48 * 1024, kMostSharedBytes = 227 * 1024;

struct SharedLimits {
  std::mutex mutex;
  std::map<const void*, std::size_t> of_kernel;  // where it is not the default
};

SharedLimits& shared_limits() {
  static SharedLimits limits;
  return limits;
}

thread_local int current_device = 0;
thread_local bool new_streams_held = false;
std::atomic<bool> events_pending = false;

void reach(const EmulatedEventState& event, long record);

// Runs the first item of a stream, after the work that it waits for.
void advance(cudaStream_t stream) {
  const EmulatedItem item = std::move(stream->waiting.front());
  stream->waiting.pop_front();
  if (!item.is_ready()) reach(*item.awaited, item.record);
  if (item.run) item.run();
}

void reach(const EmulatedEventState& event, long record) {
  while (event.reached < record) advance(event.stream);
}

void finish(cudaStream_t stream) {
  while (stream != nullptr && !stream->waiting.empty()) advance(stream);
}

constexpr int kToolkitVersion = 13000;

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

void set_events_pending(bool pending) {
  events_pending = pending;
}

void set_driver_version(int version) {
  const std::lock_guard lock(device_memory().mutex);
  device_memory().driver_version = version;
}

void hold(void* stream, bool on) {
  const auto held = static_cast<cudaStream_t>(stream);
  held->is_held = on;
  if (!on) finish(held);
}

void hold_new_streams(bool on) {
  new_streams_held = on;
}

DeviceAccess::DeviceAccess() {
  if (!guards_device_memory()) return;
  before_ = static_cast<unsigned>(pkey_get(protection_key()));
  pkey_set(protection_key(), 0);
}

DeviceAccess::~DeviceAccess() {
  if (guards_device_memory()) pkey_set(protection_key(), before_);
}

bool guards_device_memory() {
  return protection_key() >= 0;
}

int& compute_capability() {
  static int capability = 90;
  return capability;
}

std::atomic<double>& clock_us() {
  static std::atomic<double> us = 0;
  return us;
}

Counts& counts() {
  thread_local Counts counts;
  return counts;
}

std::size_t allocated_bytes() {
  const std::lock_guard lock(device_memory().mutex);
  return device_memory().bytes;
}

}  // namespace emulation

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  ++emulation::counts().mallocs;
  DeviceMemory& memory = device_memory();
  const std::lock_guard lock(memory.mutex);
  const std::size_t size = std::max(kPage, (bytes + kPage - 1) / kPage * kPage);
  if (size > memory.limit - std::min(memory.bytes, memory.limit)) return cudaErrorMemoryAllocation;
  *data = map_pages(size);
  if (*data == nullptr) return cudaErrorMemoryAllocation;
  memory.blocks[*data] = size;
  memory.bytes += size;
  return cudaSuccess;
}

// Waits for the card, which is forbidden on a recorded stream.
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  DeviceMemory& memory = device_memory();
  const std::lock_guard lock(memory.mutex);
  *total = memory.limit;
  *free = memory.limit - memory.bytes;
  return cudaSuccess;
}
cudaError_t cudaFree(void* data) {
  ++emulation::counts().mallocs;
  ++emulation::counts().frees;
  if (emulated_streams_recorded() > 0) return cudaErrorStreamCaptureUnsupported;
  DeviceMemory& memory = device_memory();
  const std::lock_guard lock(memory.mutex);
  const auto block = memory.blocks.find(data);
  if (block == memory.blocks.end()) return cudaErrorIllegalAddress;
  memory.bytes -= block->second;
  munmap(data, block->second + kPage);
  memory.blocks.erase(block);
  return cudaSuccess;
}

cudaError_t cudaMallocHost(void** data, std::size_t bytes) {
  ++emulation::counts().pinned;
  *data = std::malloc(bytes);
  return *data == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

cudaError_t cudaFreeHost(void* data) {
  std::free(data);
  return cudaSuccess;
}

void emulated_append(cudaStream_t stream, EmulatedItem item) {
  stream->waiting.push_back(std::move(item));
  while (!stream->is_held && !stream->waiting.empty() && stream->waiting.front().is_ready()) advance(stream);
}

// A card records a copy from the host and reads the source at replay, when it holds something else. So here
// the copy is an error.
cudaError_t cudaMemcpyAsync(void* dst, const void* src, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  if (stream != nullptr && stream->recording && kind == cudaMemcpyHostToDevice)
    return cudaErrorStreamCaptureUnsupported;
  emulated_enqueue(stream, [=] {
    std::memmove(dst, src, bytes);
    if (kind == cudaMemcpyHostToDevice) ++emulation::counts().uploads;
  });
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* dst, int value, std::size_t bytes, cudaStream_t stream) {
  emulated_enqueue(stream, [=] { std::memset(dst, value, bytes); });
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  const std::lock_guard lock(device_memory().mutex);
  if (device_memory().driver_version < kToolkitVersion) return cudaErrorInsufficientDriver;
  *count = device_memory().device_count;
  return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {
      .name = "emulated", .major = 9, .minor = 0, .multiProcessorCount = 1, .totalGlobalMem = 1u << 30};
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int device) {
  std::snprintf(text, static_cast<std::size_t>(bytes), "0000:%02X:00.0", 0x1A + device);
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

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  const int capability = emulation::compute_capability();
  *value = attribute == cudaDevAttrComputeCapabilityMajor   ? capability / 10
           : attribute == cudaDevAttrComputeCapabilityMinor ? capability % 10
                                                            : static_cast<int>(kMostSharedBytes);
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute, int value) {
  if (value < 0 || static_cast<std::size_t>(value) > kMostSharedBytes) return cudaErrorInvalidValue;
  const std::lock_guard lock(shared_limits().mutex);
  shared_limits().of_kernel[kernel] = static_cast<std::size_t>(value);
  return cudaSuccess;
}
cudaError_t emulated_check_launch(const cudaLaunchConfig_t& config, const void* kernel) {
  const dim3 &grid = config.gridDim, &block = config.blockDim;
  const std::size_t threads = std::size_t{block.x} * block.y * block.z;
  if (std::uint64_t{grid.x} * grid.y * grid.z == 0 || grid.x > 0x7fffffffu || grid.y > 65535 ||
      grid.z > 65535 || threads == 0 || threads > 1024 || block.z > 64) {
    return cudaErrorInvalidConfiguration;
  }
  const unsigned cluster = emulated_cluster_of(config);
  if (cluster == 0 || cluster > 8 || grid.x % cluster != 0) return cudaErrorInvalidClusterSize;
  if (cluster > 1 && emulation::compute_capability() < 90) return cudaErrorInvalidClusterSize;
  if (config.dynamicSmemBytes <= kDefaultSharedBytes) return cudaSuccess;
  const std::lock_guard lock(shared_limits().mutex);
  const auto found = shared_limits().of_kernel.find(kernel);
  const bool fits = found != shared_limits().of_kernel.end() && config.dynamicSmemBytes <= found->second;
  return fits ? cudaSuccess : cudaErrorInvalidValue;
}
// Each new stream runs its kernels in another order.
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  thread_local int count = 0;
  emulation::set_order(static_cast<emulation::Order>(count++ % 3));
  *stream = new CUstream_st;
  (*stream)->is_held = new_streams_held;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  finish(stream);
  delete stream;
  return cudaSuccess;
}
// Waiting for a recorded stream is an error, as on a card.
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  ++emulation::counts().waits;
  if (stream != nullptr && stream->recording) return cudaErrorStreamCaptureUnsupported;
  if (stream != nullptr && stream->thread) stream->thread->drain();
  finish(stream);
  return cudaSuccess;
}
// A stream that runs its work immediately is the calling thread.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (event->is_captured) return emulated_await_captured(stream, *event);
  if (stream != nullptr && stream->recording)
    return cudaErrorStreamCaptureUnsupported;  // recorded work cannot wait for work outside the recording
  const EmulatedEventState& state = *event->state;
  if (event->mark) {
    emulated_enqueue(stream, [mark = event->mark] { mark->wait(); });
  } else if (stream == nullptr || stream->thread) {
    reach(state, state.recorded);
  } else if (state.reached < state.recorded) {
    emulated_append(stream, {.run = {}, .awaited = event->state, .record = state.recorded});
  }
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = new CUevent_st;
  if ((flags & cudaEventDisableTiming) == 0) emulated_time_event((*event)->state.get());
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  emulated_forget_event(event->state.get());
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  event->is_captured = stream != nullptr && stream->recording;
  if (event->is_captured) return emulated_record_captured(stream, *event);
  event->mark = nullptr;
  if (stream != nullptr && stream->thread) {
    event->mark = std::make_shared<emulation::StreamMark>();
    stream->thread->add([mark = event->mark, state = event->state] {
      emulated_event_passed(state.get());
      mark->set();
    });
    return cudaSuccess;
  }
  const std::shared_ptr<EmulatedEventState> state = event->state;
  state->stream = stream;
  emulated_enqueue(stream, [state, record = ++state->recorded] {
    emulated_event_passed(state.get());
    state->us = emulation::clock_us().load();
    state->reached = record;
  });
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (event->is_captured) return cudaErrorCapturedEvent;
  const EmulatedEventState& state = *event->state;
  const bool passed = event->mark ? event->mark->is_set() : state.reached >= state.recorded;
  return passed && !events_pending ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  ++emulation::counts().waits;
  ++emulation::counts().event_waits;
  if (event->is_captured) return cudaErrorCapturedEvent;
  if (event->mark)
    event->mark->wait();
  else
    reach(*event->state, event->state->recorded);
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const bool records = stream != nullptr && stream->recording;
  *status = records ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  const std::lock_guard lock(device_memory().mutex);
  *version = device_memory().driver_version;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = kToolkitVersion;
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
