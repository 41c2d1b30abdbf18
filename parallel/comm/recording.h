// A communicator without peers, for the meta device: checks and counts the calls of a rank without moving
// data.
//
// It predicts the traffic of a plan before a launch: the same calls give the same TrafficCounts as on a
// communicator with peers.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "parallel/comm/communicator.h"

namespace trireme {

struct RecordedCall {
  CallKind kind = CallKind::kBarrier;
  DType dtype = DType::kUInt8;
  std::int64_t bytes = 0;       // size of the full buffer, n in TrafficCounts
  std::int64_t sent_bytes = 0;  // as counted by TrafficCounts
  int peer = -1;                // send and recv; root of a broadcast
  int tag = -1;                 // send and recv
};

class RecordingCommunicator : public Communicator {
 public:
  /// Acts as `rank` of `size`. Throws Error(kInvalidInput) if there is no such rank.
  RecordingCommunicator(int rank, int size);

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string kind() const override { return "recording"; }
  DeviceType device_type() const override { return DeviceType::kMeta; }

  const std::vector<RecordedCall>& calls() const { return calls_; }

  /// Queues the colors, by rank, of a later split, as there are no peers to query.
  void expect_split(std::vector<int> colors);
  /// A RecordingCommunicator that records its own calls. Throws Error(kInvalidInput) if the colors are not
  /// set, or this rank passes another color. A group of one needs no colors.
  std::shared_ptr<Communicator> split(int color) override;

  /// Does nothing: there is no job.
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
  /// One copy of `text` per rank.
  std::vector<std::string> all_gather_strings_impl(const std::string& text) override;
  /// One copy of `mine` per rank.
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
