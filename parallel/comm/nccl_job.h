// State that the NCCL communicators of one rank share: handles as owners, the operations in flight, and the
// watchdog that looks after them (see [Note: failing operations] in nccl.h).
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

/// Orders streams; measures no time.
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
  /// Of what was recorded: cudaSuccess, cudaErrorNotReady or what went wrong.
  cudaError_t query() const { return cudaEventQuery(event_); }

 private:
  cudaEvent_t event_ = nullptr;
};

/// The ranks that a channel connects.
struct NcclGroup {
  std::string text;  // "NCCL on rank 1 of 4", for errors
  ncclUniqueId id{};
  int rank = 0, size = 1;
  int most_blocks = 0;  // of its kernels; 0: as NCCL likes
};

/// One ncclComm_t and its stream. Destroyed when all is well; aborted after a failure, and while an exception
/// unwinds the stack, as operations may be in flight that no peer will join.
///
/// [Note: owner of an ncclComm_t] Whoever calls NCCL with it holds mutex_, and nobody does after an abort. No
/// call waits for a peer: the communicator does not block, so a call that connects ranks returns, and whoever
/// made it asks for its state until it is done. Between two questions the watchdog may take the communicator
/// and abort it.
class NcclChannel {
 public:
  using Clock = std::chrono::steady_clock;

  /// Waits for the other ranks of the group, no longer than `limit`; `check` is called in between, and may
  /// throw. On the current device.
  NcclChannel(const NcclGroup& group, std::chrono::seconds limit, const std::function<void()>& check);
  ~NcclChannel();
  NcclChannel(const NcclChannel&) = delete;
  NcclChannel& operator=(const NcclChannel&) = delete;

  cudaStream_t stream() const { return stream_; }
  /// call(comm, stream), until NCCL has enqueued what it does or failed. ncclInProgress: not within `limit`;
  /// ncclRemoteError: aborted.
  template <class Call>
  ncclResult_t run(std::chrono::seconds limit, const Call& call) {
    ncclResult_t result = ncclRemoteError;
    {
      const std::lock_guard lock(mutex_);
      if (!aborted_) result = call(comm_, stream_);
    }
    return result == ncclInProgress ? await(limit, [] {}) : result;
  }
  /// Ends the kernels that wait for peers. From any thread; the channel can do nothing afterwards.
  void abort() noexcept;
  /// The error that came up while operations ran; ncclSuccess where there is none, or where the communicator
  /// is in use: its user learns of it then.
  ncclResult_t async_error() const;

 private:
  /// The state of the last call; ncclRemoteError after an abort.
  ncclResult_t state() const;
  ncclResult_t await(std::chrono::seconds limit, const std::function<void()>& check) const;

  mutable std::timed_mutex mutex_;
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
  bool aborted_ = false;
  const int num_exceptions_ = std::uncaught_exceptions();  // in flight when it was made
};

/// An operation that has been enqueued.
struct NcclOperation {
  std::string text;  // "all_reduce of fp32 [1000] on rank 1 of 4"
  std::shared_ptr<CommEvent> done;
  std::chrono::steady_clock::time_point started;
  std::vector<Tensor> abandoned;  // that nobody waits for any more
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

  /// Of an operation, and of the setting up of a channel.
  std::chrono::seconds timeout() const { return timeout_; }

  /// A channel that the watchdog looks after. Throws Error(kCommunication) when the ranks of the group have
  /// not met within the timeout, or the job has failed.
  std::shared_ptr<NcclChannel> make_channel(const NcclGroup& group);

  /// Throws Error(kCommunication) with the job's first failure.
  void throw_if_failed() const;
  /// Throws as throw_if_failed() does, or naming `text` unless NCCL has taken the call with this result.
  void check(ncclResult_t result, const std::string& text) const;
  /// The host waits until `done` has passed, no longer than the timeout. Throws Error(kCommunication) naming
  /// `text`.
  void await(const CommEvent& done, const std::string& text) const;
  /// What is recorded does not run: nobody watches it, and its events cannot be asked. Of the thread that
  /// enqueues.
  void set_recording(bool on) { recording_ = on; }
  void add(std::string text, std::shared_ptr<CommEvent> done);
  /// Keeps tensors until the operation that `done` belongs to has ended.
  void keep(const std::shared_ptr<CommEvent>& done, std::vector<Tensor> tensors);
  /// The first failure counts: ends the job on every rank.
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
