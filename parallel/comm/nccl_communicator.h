// The Communicator over NCCL: see nccl.h.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "parallel/comm/nccl_job.h"

namespace trireme {

class NcclCommunicator : public Communicator {
 public:
  NcclCommunicator(std::shared_ptr<NcclJob> job, std::shared_ptr<Communicator> host);

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  std::string kind() const override { return "nccl"; }
  DeviceType device_type() const override { return DeviceType::kCuda; }
  std::vector<int> hosts() const override { return host_->hosts(); }
  void bind_stream(void* compute_stream) override;
  bool records_graphs() const override { return true; }
  void set_recording(bool on) override { job_->set_recording(on); }
  void watch_stream(const std::string& what) override;

  std::shared_ptr<Communicator> split(int color) override;
  void abort(const Error& error) noexcept override { job_->fail(error); }
  void sleep_while_waiting(bool wanted) override { host_->sleep_while_waiting(wanted); }

 protected:
  Work all_reduce_impl(const Tensor& inout, ReduceOp op) override;
  Work reduce_scatter_impl(const Tensor& in, const Tensor& out, ReduceOp op) override;
  Work all_gather_impl(const Tensor& in, const Tensor& out) override;
  Work all_to_all_impl(const Tensor& in, const Tensor& out) override;
  Work broadcast_impl(const Tensor& inout, int root) override;
  void open_channels_impl(const std::vector<MessageChannel>& channels) override;
  Work send_impl(const Tensor& tensor, int peer, int tag) override;
  Work recv_impl(const Tensor& tensor, int peer, int tag) override;
  void barrier_impl() override;
  std::vector<std::string> all_gather_strings_impl(const std::string& text) override;
  void all_gather_values_impl(std::span<const std::byte> mine, std::span<std::byte> all) override;

 private:
  /// Calls call(args..., comm, stream) between the events of [Note: streams of a communicator].
  template <class Call, class... Args>
  Work enqueue(NcclChannel& channel, std::string text, std::vector<Tensor> tensors, Call call, Args... args);
  template <class Call, class... Args>
  Work collective(CallKind kind, const Tensor& a, const Tensor& b, Call call, Args... args);

  const std::shared_ptr<NcclJob> job_;
  const std::shared_ptr<Communicator> host_;
  const std::shared_ptr<NcclChannel> channel_;                               // for collectives
  std::map<MessageChannel, std::shared_ptr<NcclChannel>> message_channels_;  // channels of this rank
};

}  // namespace trireme
