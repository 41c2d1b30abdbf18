// The Communicator over one MPI communicator. See mpi.h.
#pragma once

#include "parallel/comm/communicator.h"
#include "parallel/comm/mpi_job.h"

namespace trireme {

class MpiCommunicator : public Communicator {
 public:
  /// Takes ownership of `comm` and frees it.
  MpiCommunicator(std::shared_ptr<MpiJob> job, MPI_Comm comm, std::int64_t max_count);
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;
  ~MpiCommunicator() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string kind() const override { return "mpi"; }
  bool spans_machines() const override;
  std::vector<int> hosts() const override { return hosts_; }
  DeviceType device_type() const override { return DeviceType::kCpu; }
  std::shared_ptr<Communicator> split(int color) override;
  void abort(const Error& error) noexcept override { job_->abort(error); }
  void progress_in_background(bool wanted) override { job_->set_progress(wanted); }
  void sleep_while_waiting(bool wanted) override { job_->sleeps = wanted; }

 protected:
  Work all_reduce_impl(const Tensor& inout, ReduceOp op) override;
  Work reduce_scatter_impl(const Tensor& in, const Tensor& out, ReduceOp op) override;
  Work all_gather_impl(const Tensor& in, const Tensor& out) override;
  Work all_to_all_impl(const Tensor& in, const Tensor& out) override;
  Work broadcast_impl(const Tensor& inout, int root) override;
  Work send_impl(const Tensor& tensor, int peer, int tag) override;
  Work recv_impl(const Tensor& tensor, int peer, int tag) override;
  void barrier_impl() override;
  std::vector<std::string> all_gather_strings_impl(const std::string& text) override;
  void all_gather_values_impl(std::span<const std::byte> mine, std::span<std::byte> all) override;

 private:
  /// Maximum elements per rank in one call. The sum over all ranks stays below max_count_, because Open MPI
  /// multiplies counts by ranks as int.
  std::int64_t max_piece() const;
  std::string where(CallKind call) const;

  std::shared_ptr<MpiJob> job_;
  MPI_Comm comm_;
  std::int64_t max_count_;
  int rank_ = 0;
  int size_ = 1;
  std::vector<int> hosts_;
};

}  // namespace trireme
