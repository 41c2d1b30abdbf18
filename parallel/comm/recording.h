// A communicator without peers, for the meta device: checks and counts what a rank would say, moves nothing.
//
// It is how the traffic of a plan is known before a launch: the same calls give the same TrafficCounts as on
// a communicator that has peers.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "parallel/comm/communicator.h"

namespace trireme {

struct RecordedCall {
  CallKind kind = CallKind::kBarrier;
  DType dtype = DType::kUInt8;
  std::int64_t bytes = 0;       // of the full buffer, the n of TrafficCounts
  std::int64_t sent_bytes = 0;  // what TrafficCounts counts for it
  int peer = -1;                // send and recv; root of a broadcast
  int tag = -1;                 // send and recv
};

class RecordingCommunicator : public Communicator {
 public:
  /// Speaks as `rank` of `size`. Throws Error(kInvalidInput) when there is no such rank.
  RecordingCommunicator(int rank, int size);

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string kind() const override { return "recording"; }
  DeviceType device_type() const override { return DeviceType::kMeta; }

  const std::vector<RecordedCall>& calls() const { return calls_; }

  /// Announces the colors, by rank, of the next split that is not announced yet: there are no peers to ask.
  void expect_split(std::vector<int> colors);
  /// A RecordingCommunicator that records its own calls. Throws Error(kInvalidInput) when the split was not
  /// announced, or this rank passes another color than announced. A group of one needs no announcement.
  std::shared_ptr<Communicator> split(int color) override;

  /// Throws nothing and ends nothing: there is no job.
  void abort(const Error&) noexcept override {}

 protected:
  Work all_reduce_impl(const Tensor& inout, ReduceOp) override { return record(CallKind::kAllReduce, inout); }
  Work reduce_scatter_impl(const Tensor& in, const Tensor&, ReduceOp) override {
    return record(CallKind::kReduceScatter, in);
  }
  Work all_gather_impl(const Tensor&, const Tensor& out) override {
    return record(CallKind::kAllGather, out);
  }
  Work all_to_all_impl(const Tensor&, const Tensor& out) override { return record(CallKind::kAllToAll, out); }
  Work broadcast_impl(const Tensor& inout, int root) override {
    return record(CallKind::kBroadcast, inout, root);
  }
  Work send_impl(const Tensor& tensor, int peer, int tag) override {
    return record(CallKind::kSend, tensor, peer, tag);
  }
  Work recv_impl(const Tensor& tensor, int peer, int tag) override {
    return record(CallKind::kRecv, tensor, peer, tag);
  }
  void barrier_impl() override { calls_.push_back({.kind = CallKind::kBarrier}); }
  /// As many copies of `text` as there are ranks.
  std::vector<std::string> all_gather_strings_impl(const std::string& text) override;
  /// As many copies of `mine` as there are ranks.
  void all_gather_values_impl(std::span<const std::byte> mine, std::span<std::byte> all) override;

 private:
  /// `full` is the full buffer.
  Work record(CallKind kind, const Tensor& full, int peer = -1, int tag = -1);

  int rank_;
  int size_;
  std::vector<RecordedCall> calls_;
  std::deque<std::vector<int>> expected_splits_;
};

}  // namespace trireme
