// State shared by the NCCL communicators of one rank: RAII handles, the operations in flight, and their
// watchdog (see [Note: failing operations] in nccl.h).
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "parallel/comm/communicator.h"

namespace trireme {

/// Throws Error(kCommunication) naming `call` unless `result` is success.
void check_cuda(cudaError_t result, const std::string& call);
void check_nccl(ncclResult_t result, const std::string& call);

/// An event for ordering streams, without timing.
class CommEvent {
 public:
  CommEvent();
  ~CommEvent();
  CommEvent(const CommEvent&) = delete;
  CommEvent& operator=(const CommEvent&) = delete;

  void record(cudaStream_t stream) { check_cuda(cudaEventRecord(event_, stream), "cudaEventRecord"); }
  void make_wait(cudaStream_t stream) const {
    check_cuda(cudaStreamWaitEvent(stream, event_, 0), "cudaStreamWaitEvent");
  }
  /// State of the recorded work: cudaSuccess, cudaErrorNotReady or an error.
  cudaError_t query() const { return cudaEventQuery(event_); }

 private:
  cudaEvent_t event_ = nullptr;
};

/// The ranks that a channel connects.
struct NcclGroup {
  std::string text;  // "NCCL on rank 1 of 4", for errors
  ncclUniqueId id{};
  int rank = 0, size = 1;
  int most_blocks = 0;  // maximum blocks of its kernels; 0: NCCL's default
};

/// One ncclComm_t and its stream. Destroyed normally if all is well. Aborted after a failure, and while an
/// exception unwinds the stack, as operations may be in flight that no peer will join.
///
/// [Note: owner of an ncclComm_t] A thread that calls NCCL with it must hold mutex_, and no thread calls NCCL
/// after an abort. No call waits for a peer: the communicator is nonblocking, so a call that connects ranks
/// returns at once, and the caller polls its state until it is done. Between two polls the watchdog may lock
/// the communicator and abort it.
class NcclChannel {
 public:
  using Clock = std::chrono::steady_clock;

  /// Waits for the other ranks of the group, at most `limit`; meanwhile calls `check`, which may throw. Uses
  /// the current device.
  NcclChannel(const NcclGroup& group, std::chrono::seconds limit, const std::function<void()>& check);
  ~NcclChannel();
  NcclChannel(const NcclChannel&) = delete;
  NcclChannel& operator=(const NcclChannel&) = delete;

  cudaStream_t stream() const { return stream_; }
  /// Runs call(comm, stream), and waits until NCCL has enqueued it or failed. ncclInProgress: not within
  /// `limit`; ncclRemoteError: aborted.
  template <class Call>
  ncclResult_t run(std::chrono::seconds limit, const Call& call) {
    ncclResult_t result = ncclRemoteError;
    {
      const std::lock_guard lock(mutex_);
      if (!aborted_) result = call(comm_, stream_);
    }
    return result == ncclInProgress ? await(limit, [] {}) : result;
  }
  /// Ends kernels that wait for peers. From any thread; the channel is unusable afterwards.
  void abort() noexcept;
  /// The error of running operations. ncclSuccess if there is none, or if the communicator is in use: its
  /// user then gets the error.
  ncclResult_t async_error() const;

 private:
  /// The state of the last call; ncclRemoteError after an abort.
  ncclResult_t state() const;
  ncclResult_t await(std::chrono::seconds limit, const std::function<void()>& check) const;

  mutable std::timed_mutex mutex_;
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
  bool aborted_ = false;
  const int num_exceptions_ = std::uncaught_exceptions();  // uncaught exceptions at construction
};

/// An enqueued operation.
struct NcclOperation {
  std::string text;  // "all_reduce of fp32 [1000] on rank 1 of 4"
  std::shared_ptr<CommEvent> done;
  std::chrono::steady_clock::time_point started;
  std::vector<Tensor> abandoned;  // tensors whose Work was dropped without wait()
};

class NcclJob {
 public:
  NcclJob(std::shared_ptr<Communicator> host, Device device, std::chrono::seconds timeout);
  ~NcclJob();
  NcclJob(const NcclJob&) = delete;
  NcclJob& operator=(const NcclJob&) = delete;

  Device device() const { return device_; }
  cudaStream_t compute_stream() const { return compute_stream_; }
  void set_compute_stream(cudaStream_t stream) { compute_stream_ = stream; }

  /// Limit for an operation, and for setting up a channel.
  std::chrono::seconds timeout() const { return timeout_; }

  /// Creates a channel that the watchdog monitors. Throws Error(kCommunication) if the ranks of the group
  /// have not joined within the timeout, or the job has failed.
  std::shared_ptr<NcclChannel> make_channel(const NcclGroup& group);

  /// Throws Error(kCommunication) with the job's first failure.
  void throw_if_failed() const;
  /// Throws like throw_if_failed(), or an error naming `text` if `result` is not success.
  void check(ncclResult_t result, const std::string& text) const;
  /// Blocks the host until `done` has completed, at most the timeout. Throws Error(kCommunication) naming
  /// `text`.
  void await(const CommEvent& done, const std::string& text) const;
  /// While on, operations are recorded instead of run. They are not watched, and their events cannot be
  /// queried. Used by the enqueuing thread only.
  void set_recording(bool on) { recording_ = on; }
  void add(std::string text, std::shared_ptr<CommEvent> done);
  /// Keeps tensors until the operation of `done` has ended.
  void keep(const std::shared_ptr<CommEvent>& done, std::vector<Tensor> tensors);
  /// Ends the job on every rank; only the first failure counts.
  void fail(const Error& error) noexcept;

 private:
  void watch();
  void look_after_operations();

  const std::shared_ptr<Communicator> host_;
  const Device device_;
  const std::chrono::seconds timeout_;
  cudaStream_t compute_stream_ = nullptr;
  bool recording_ = false;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool ending_ = false;
  std::string failure_;
  std::list<NcclOperation> operations_;
  std::vector<std::weak_ptr<NcclChannel>> channels_;
  std::thread watchdog_;
};

}  // namespace trireme
