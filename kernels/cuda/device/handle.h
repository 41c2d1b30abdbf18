// Owners of streams, events and page-locked memory, and a guard for the current device.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <utility>

#include "kernels/cuda/device/check.h"

namespace trireme::cuda {

/// Makes a card current for a scope.
class DeviceGuard {
 public:
  explicit DeviceGuard(int index) {
    check(cudaGetDevice(&before_), "cudaGetDevice");
    if (index != before_) check(cudaSetDevice(index), "cudaSetDevice");
  }
  ~DeviceGuard() { check_noexcept(cudaSetDevice(before_), "cudaSetDevice"); }
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int before_ = 0;
};

/// A stream of the current device that does not synchronise with the default stream.
class StreamHandle {
 public:
  StreamHandle() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate"); }
  ~StreamHandle() {
    if (stream_ != nullptr) check_noexcept(cudaStreamDestroy(stream_), "cudaStreamDestroy");
  }
  StreamHandle(StreamHandle&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  StreamHandle& operator=(StreamHandle&&) = delete;

  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// Page-locked host memory, for asynchronous copies.
class PinnedMemory {
 public:
  explicit PinnedMemory(std::size_t bytes) { check(cudaMallocHost(&data_, bytes), "cudaMallocHost"); }
  ~PinnedMemory() {
    if (data_ != nullptr) check_noexcept(cudaFreeHost(data_), "cudaFreeHost");
  }
  PinnedMemory(PinnedMemory&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  PinnedMemory& operator=(PinnedMemory&&) = delete;

  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

/// An event without timing, which orders streams and can be queried.
class Event {
 public:
  Event() { check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreate"); }
  ~Event() {
    if (event_ != nullptr) check_noexcept(cudaEventDestroy(event_), "cudaEventDestroy");
  }
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&&) = delete;

  cudaEvent_t get() const { return event_; }
  void record(cudaStream_t stream) { check(cudaEventRecord(event_, stream), "cudaEventRecord"); }
  /// Work enqueued on `stream` from now on starts after the recorded work.
  void make_wait(cudaStream_t stream) const {
    check(cudaStreamWaitEvent(stream, event_, 0), "cudaStreamWaitEvent");
  }
  /// True when the recorded work is done, or when nothing was recorded.
  bool passed() const {
    const cudaError_t result = cudaEventQuery(event_);
    if (result == cudaErrorNotReady) return false;
    check(result, "cudaEventQuery");
    return true;
  }
  void wait() const { check(cudaEventSynchronize(event_), "cudaEventSynchronize"); }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace trireme::cuda
