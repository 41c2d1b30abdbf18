#include "parallel/comm/nccl_communicator.h"

#include <algorithm>
#include <utility>

#include "parallel/comm/nccl_messages.h"
#include "parallel/comm/nccl_work.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

ncclRedOp_t nccl_op(ReduceOp op) {
  return op == ReduceOp::kSum ? ncclSum : ncclMax;
}

std::size_t count_of(const Tensor& tensor) {
  return static_cast<std::size_t>(tensor.num_elems());
}

}  // namespace

NcclCommunicator::NcclCommunicator(std::shared_ptr<NcclJob> job, std::shared_ptr<Communicator> host)
    : job_(std::move(job)),
      host_(std::move(host)),
      channel_(job_->make_channel(*host_)),
      messages_(std::make_shared<NcclMessages>(job_, job_->make_channel(*host_))) {
  show_waits_on(host_->status());
}

void NcclCommunicator::bind_stream(void* compute_stream) {
  job_->set_compute_stream(static_cast<cudaStream_t>(compute_stream));
}

template <class Run>
Work NcclCommunicator::enqueue(CallKind call, const Tensor& a, const Tensor& b, Run run) {
  job_->throw_if_failed();
  std::string text = fmt::format("{} of {} {} on rank {} of {}", name(call), name(a.dtype()),
                                 a.shape().to_string(), rank(), size());
  CommEvent ready;
  ready.record(job_->compute_stream());
  ready.make_wait(channel_->stream());
  check_nccl(run(channel_->comm(), channel_->stream()), text);
  auto done = std::make_shared<CommEvent>();
  done->record(channel_->stream());
  job_->add(std::move(text), done);
  return Work(std::make_unique<NcclWork>(job_, std::move(done), std::vector<Tensor>{a, b}));
}

Work NcclCommunicator::all_reduce_impl(const Tensor& inout, ReduceOp op) {
  return enqueue(CallKind::kAllReduce, inout, {}, [&](ncclComm_t comm, cudaStream_t stream) {
    return ncclAllReduce(inout.data(), inout.data(), count_of(inout), nccl_type(inout.dtype()), nccl_op(op),
                         comm, stream);
  });
}

Work NcclCommunicator::reduce_scatter_impl(const Tensor& in, const Tensor& out, ReduceOp op) {
  return enqueue(CallKind::kReduceScatter, in, out, [&](ncclComm_t comm, cudaStream_t stream) {
    return ncclReduceScatter(in.data(), out.data(), count_of(out), nccl_type(in.dtype()), nccl_op(op), comm,
                             stream);
  });
}

Work NcclCommunicator::all_gather_impl(const Tensor& in, const Tensor& out) {
  return enqueue(CallKind::kAllGather, in, out, [&](ncclComm_t comm, cudaStream_t stream) {
    return ncclAllGather(in.data(), out.data(), count_of(in), nccl_type(in.dtype()), comm, stream);
  });
}

Work NcclCommunicator::all_to_all_impl(const Tensor& in, const Tensor& out) {
  return enqueue(CallKind::kAllToAll, in, out, [&](ncclComm_t comm, cudaStream_t stream) {
    const std::size_t count = count_of(in) / static_cast<std::size_t>(size());
    const std::int64_t bytes = static_cast<std::int64_t>(count) * size_bytes(in.dtype());
    const ncclDataType_t type = nccl_type(in.dtype());
    ncclResult_t result = ncclGroupStart();
    for (int peer = 0; peer < size() && result == ncclSuccess && count > 0; ++peer) {
      const auto* from = static_cast<const std::byte*>(in.data()) + peer * bytes;
      auto* to = static_cast<std::byte*>(out.data()) + peer * bytes;
      result = ncclSend(from, count, type, peer, comm, stream);
      if (result == ncclSuccess) result = ncclRecv(to, count, type, peer, comm, stream);
    }
    const ncclResult_t end = ncclGroupEnd();
    return result != ncclSuccess ? result : end;
  });
}

Work NcclCommunicator::broadcast_impl(const Tensor& inout, int root) {
  return enqueue(CallKind::kBroadcast, inout, {}, [&](ncclComm_t comm, cudaStream_t stream) {
    return ncclBroadcast(inout.data(), inout.data(), count_of(inout), nccl_type(inout.dtype()), root, comm,
                         stream);
  });
}

Work NcclCommunicator::send_impl(const Tensor& tensor, int peer, int tag) {
  return messages_->post(
      CallKind::kSend, tensor, peer,
      fmt::format("send of {} {} on rank {} of {} to rank {}, tag {}", name(tensor.dtype()),
                  tensor.shape().to_string(), rank(), size(), peer, tag));
}

Work NcclCommunicator::recv_impl(const Tensor& tensor, int peer, int tag) {
  return messages_->post(
      CallKind::kRecv, tensor, peer,
      fmt::format("recv of {} {} on rank {} of {} from rank {}, tag {}", name(tensor.dtype()),
                  tensor.shape().to_string(), rank(), size(), peer, tag));
}

void NcclCommunicator::barrier_impl() {
  job_->throw_if_failed();
  host_->barrier();
}

std::vector<std::string> NcclCommunicator::all_gather_strings_impl(const std::string& text) {
  return host_->all_gather_strings(text);
}

std::shared_ptr<Communicator> NcclCommunicator::split(int color) {
  TRIREME_CHECK(color >= 0, "split on rank {} of {}: color {} must not be negative", rank(), size(), color);
  job_->throw_if_failed();
  return std::make_shared<NcclCommunicator>(job_, host_->split(color));
}

}  // namespace trireme
