// Collectives and messages between ranks: one interface. `local` (threads as ranks), `mpi`, `nccl` and
// `recording` implement it, and one conformance suite (tests/parallel/comm) runs against each.
//
// [Note: collective order] All ranks of a group call the same collectives in the same order. The validator
// proves this for plans. Outside of plans the caller is responsible (`local` reports a violation, `mpi`
// cannot).
//
// [Note: communication buffers] From the call until wait(), the tensors belong to the operation: inputs may
// be read but not written, outputs neither. Every implementation's Work keeps them allocated exactly until
// wait() returns, so that the memory of a run equals its prediction.
//
// A rank uses its communicators from one thread at a time; abort() may come from any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "parallel/comm/call_kind.h"
#include "parallel/comm/message_channel.h"
#include "parallel/comm/rank_board.h"
#include "runtime/base/error.h"
#include "runtime/tensor.h"

namespace trireme {

enum class ReduceOp : std::uint8_t { kSum, kMax };

/// Notified when Work::wait() starts and when it ends. On a device with streams, wait() only makes the rank's
/// stream wait.
class WaitObserver {
 public:
  virtual ~WaitObserver() = default;
  virtual void begin_wait() = 0;
  virtual void end_wait() = 0;
};

/// State shared by a communicator and its Works.
struct CommState {
  double exposed_ms = 0.0;
  WaitObserver* observer = nullptr;
  std::shared_ptr<RankStatus> status;  // receives the begin and end of waits; may be null
};

/// `message` with the prefix "rank R: ", unless it already names that rank ("rank R, step 3: ...").
std::string naming_rank(int rank, const std::string& message);

/// An operation in flight. Keeps its tensors alive. Destroying an unfinished Work waits for it and logs a
/// failure. While an exception unwinds the stack it does not wait, as the peers may be waiting for this rank;
/// the operation then keeps its tensors and is abandoned.
class [[nodiscard]] Work {
 public:
  /// The state of an operation in one implementation.
  class Impl {
   public:
    virtual ~Impl() = default;
    /// Blocks the host (cpu) or orders the rank's stream after the operation (cuda). Called at most once.
    virtual void wait() = 0;
    /// Called instead of wait() when no caller will wait. Must not block; memory that the operation still
    /// uses must stay alive without this object.
    virtual void abandon() noexcept = 0;
  };

  Work() = default;  // completed
  explicit Work(std::unique_ptr<Impl> impl);
  Work(Work&&) noexcept = default;
  Work& operator=(Work&& other) noexcept;
  ~Work();

  /// After this, work enqueued by the caller sees the results and may reuse the buffers. Throws
  /// Error(kCommunication), naming the failed rank if known.
  void wait();
  /// True until wait(), unless the operation completed within the call.
  bool pending() const { return impl_ != nullptr; }

 private:
  friend class Communicator;
  void finish_noexcept() noexcept;

  std::unique_ptr<Impl> impl_;
  std::shared_ptr<CommState> state_;  // of the communicator
  std::array<Tensor, 2> held_;
  int num_exceptions_ = 0;  // number of uncaught exceptions when the operation began
};

/// Bytes this rank has sent to other ranks, by the algorithmic minimum of each operation:
/// all_reduce 2 (N-1)/N n, reduce_scatter / all_gather / all_gather_values / all_to_all (N-1)/N n, send n,
/// broadcast n (N-1)/N, where n is the size of the full buffer, rounded down to whole bytes. recv, barrier
/// and all_gather_strings count as calls of 0 bytes, split is not counted. A group made by split counts its
/// own calls.
struct TrafficCounts {
  std::int64_t sent_bytes = 0;
  std::int64_t num_calls = 0;
  bool operator==(const TrafficCounts&) const = default;
};

/// The bytes that TrafficCounts counts for one call with a full buffer of `full_bytes`, in a group of `size`
/// ranks.
std::int64_t sent_bytes_of(CallKind call, std::int64_t full_bytes, int size);

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// "mpi", "local", "nccl", "recording".
  virtual std::string kind() const = 0;
  /// The device of its tensors.
  virtual DeviceType device_type() const = 0;
  /// True if ranks of the group communicate over a network driven by the host; the same on all ranks.
  virtual bool spans_machines() const { return false; }
  /// The host number of each rank; ranks on a host share memory. Hosts are numbered from 0 in the order of
  /// their first ranks; the same on all ranks. One host, if the implementation cannot detect hosts.
  virtual std::vector<int> hosts() const { return std::vector<int>(static_cast<std::size_t>(size()), 0); }
  /// Sets the stream on which this rank computes (Backend::native_stream). Operations start after the work
  /// enqueued on it, and wait() makes it wait. Groups made by split share it. Host memory has no streams.
  virtual void bind_stream(void*) {}

  /// True if operations can be recorded together with the bound stream: see StepGraph.
  virtual bool records_graphs() const { return false; }
  /// While on, operations are recorded instead of run, also in groups made by split.
  virtual void set_recording(bool) {}
  /// Watches the work just enqueued on the bound stream like an operation; if it does not end, the job is
  /// ended. `what` names it in messages.
  virtual void watch_stream(const std::string&) {}

  // Public calls check their arguments (shapes, dtypes, devices, peers: Error(kInvalidInput) naming the call,
  // the rank and both shapes), count the traffic, then call the `_impl` below. All are collective over the
  // group, except send and recv. Asynchronous: the call never waits for a peer; wait() of its Work does.
  // Tensors may be empty, and must not overlap unless stated otherwise. They throw Error(kCommunication) if
  // the job has been aborted or a peer disagrees.
  //
  // Reductions take fp32, int32 (sums wrap around) and uint8 (sums above 255 wrap or saturate: Open MPI does
  // either, by size), and throw Error(kUnsupported) for fp16 and bf16. All other calls move any dtype. The
  // maximum of a NaN and a number is either of the two.

  /// In place: every rank gets the reduction over ranks. The library chooses the order of a sum (`reduction =
  /// "fast"`); all ranks get the same bits.
  Work all_reduce(const Tensor& inout, ReduceOp op);
  /// in [N * n] -> out [n]: rank r gets piece r of the sum.
  Work reduce_scatter(const Tensor& in, const Tensor& out, ReduceOp op);
  /// in [n] -> out [N * n], pieces in rank order. `in` may be piece rank() of `out`.
  Work all_gather(const Tensor& in, const Tensor& out);
  /// in [N * n] -> out [N * n]: piece p of `in` goes to rank p; piece q of `out` comes from rank q.
  Work all_to_all(const Tensor& in, const Tensor& out);
  /// Copies the tensor of `root` to every rank.
  Work broadcast(const Tensor& inout, int root);
  /// Opens channels for messages, in addition to the open ones. Collective; every rank passes the same list,
  /// which may repeat open channels. Throws Error(kInvalidInput) for an invalid channel.
  void open_channels(const std::vector<MessageChannel>& channels);
  /// Messages on the channel from this rank to `peer`, or from `peer` to this rank, with `tag`. The channel
  /// must be open; its messages match in order. dtype and size must agree on both sides. wait() may block
  /// until the peer has posted its recv.
  Work send(const Tensor& tensor, int peer, int tag);
  Work recv(const Tensor& tensor, int peer, int tag);
  /// Blocks until every rank has called it.
  void barrier();

  /// Blocking exchange of one string per rank, results in rank order: configuration checks, error reports.
  std::vector<std::string> all_gather_strings(const std::string& text);

  /// Blocking exchange of plain values in host memory, for any device: [n] -> [N * n], in rank order. `n`
  /// must be the same on all ranks.
  template <class T>
  std::vector<T> all_gather_values(std::span<const T> mine) {
    static_assert(std::is_trivially_copyable_v<T>, "values travel as their bytes");
    std::vector<T> all(mine.size() * static_cast<std::size_t>(size()));
    all_gather_bytes(std::as_bytes(mine), std::as_writable_bytes(std::span(all)));
    return all;
  }
  /// The same for one value per rank.
  template <class T>
  std::vector<T> all_gather_value(const T& mine) {
    return all_gather_values(std::span<const T>(&mine, 1));
  }

  /// Collective, blocking: ranks with the same color (>= 0) form a group, ordered by their rank here.
  virtual std::shared_ptr<Communicator> split(int color) = 0;

  /// Ends the job on every rank of the world: the others' pending and later calls fail with the error's
  /// message (local) or their processes are ended (mpi). Not collective; any rank may call it from any state.
  virtual void abort(const Error& error) noexcept = 0;

  /// Requests that data moves while the rank computes, at the cost of part of a core. Implementations that do
  /// so anyway ignore it.
  virtual void progress_in_background(bool) {}
  /// Requests waits that sleep between polls instead of spinning: for ranks that share cores. Other
  /// implementations ignore it. Must be the same on all ranks, and called while no call is in flight.
  virtual void sleep_while_waiting(bool) {}

  /// Milliseconds that this rank's thread has spent in asynchronous calls and in waiting for their Work: the
  /// communication time that is not overlapped. On a device with streams wait() only orders streams, so this
  /// does not measure the device.
  double exposed_ms() const { return state_->exposed_ms; }
  /// Sets the observer of this group's waits; null: none. It must outlive the operations, or be reset.
  void observe_waits(WaitObserver* observer) { state_->observer = observer; }
  const TrafficCounts& traffic() const { return traffic_; }
  void reset_traffic() { traffic_ = {}; }
  /// This rank's line on the board, which the other ranks on its machine read; null if there is no board.
  const std::shared_ptr<RankStatus>& status() const { return state_->status; }

 protected:
  /// For constructors: reports waits to `status`.
  void show_waits_on(std::shared_ptr<RankStatus> status) { state_->status = std::move(status); }

  virtual Work all_reduce_impl(const Tensor& inout, ReduceOp op) = 0;
  virtual Work reduce_scatter_impl(const Tensor& in, const Tensor& out, ReduceOp op) = 0;
  virtual Work all_gather_impl(const Tensor& in, const Tensor& out) = 0;
  virtual Work all_to_all_impl(const Tensor& in, const Tensor& out) = 0;
  virtual Work broadcast_impl(const Tensor& inout, int root) = 0;
  /// Prepares new channels; the list is the same on all ranks.
  virtual void open_channels_impl(const std::vector<MessageChannel>&) {}
  virtual Work send_impl(const Tensor& tensor, int peer, int tag) = 0;
  virtual Work recv_impl(const Tensor& tensor, int peer, int tag) = 0;
  virtual void barrier_impl() = 0;
  virtual std::vector<std::string> all_gather_strings_impl(const std::string& text) = 0;
  virtual void all_gather_values_impl(std::span<const std::byte> mine, std::span<std::byte> all) = 0;

 private:
  void check_tensor(CallKind call, const char* role, const Tensor& tensor) const;
  void check_pair(CallKind call, const Tensor& in, const Tensor& out, std::int64_t in_pieces,
                  std::int64_t out_pieces) const;
  void check_reducible(CallKind call, const Tensor& tensor) const;
  void check_message(CallKind call, const Tensor& tensor, int peer, int tag) const;
  void count(CallKind call, std::int64_t full_bytes);
  void all_gather_bytes(std::span<const std::byte> mine, std::span<std::byte> all);
  /// Posts an operation, measures the time, and makes its Work keep the tensors.
  template <class Post>
  Work start(Post post, const Tensor& a, const Tensor& b = {});

  TrafficCounts traffic_;
  std::set<MessageChannel> open_channels_;
  const std::shared_ptr<CommState> state_ = std::make_shared<CommState>();
};

}  // namespace trireme
