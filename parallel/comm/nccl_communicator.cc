#include "parallel/comm/nccl_communicator.h"

#include <algorithm>
#include <cstring>
#include <utility>

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

// See [Note: channels over NCCL].
constexpr int kChannelBlocks = 2;

// `count` new ids, to be sent to all ranks.
std::string make_ids(std::size_t count) {
  std::string ids;
  for (std::size_t i = 0; i < count; ++i) {
    ncclUniqueId id{};
    check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
    ids.append(id.internal, sizeof(id.internal));
  }
  return ids;
}

ncclUniqueId id_at(const std::string& ids, std::size_t index) {
  ncclUniqueId id{};
  TRIREME_CHECK(ids.size() >= (index + 1) * sizeof(id.internal),
                "ranks do not agree on what NCCL is to connect: {} bytes of ids, wanted number {}",
                ids.size(), index);
  std::memcpy(id.internal, ids.data() + index * sizeof(id.internal), sizeof(id.internal));
  return id;
}

// Rank 0 creates the id.
NcclGroup group_of(Communicator& host) {
  const std::string ids = host.all_gather_strings(make_ids(host.rank() == 0 ? 1 : 0)).front();
  return {.text = fmt::format("NCCL on rank {} of {}", host.rank(), host.size()),
          .id = id_at(ids, 0),
          .rank = host.rank(),
          .size = host.size()};
}

// Sends a first message. NCCL connects two ranks when their first message is enqueued, and blocks both hosts
// until then. Here both ranks are present. In a step one might not arrive unless the other continues.
void connect(const NcclJob& job, NcclChannel& channel, const std::string& text, bool sends) {
  void* byte = nullptr;
  check_cuda(cudaMalloc(&byte, 1), "cudaMalloc");
  const std::unique_ptr<void, void (*)(void*)> freed(byte, [](void* data) { (void)cudaFree(data); });
  job.check(channel.run(job.timeout(),
                        [&](ncclComm_t comm, cudaStream_t stream) {
                          return sends ? ncclSend(byte, 1, ncclUint8, 1, comm, stream)
                                       : ncclRecv(byte, 1, ncclUint8, 0, comm, stream);
                        }),
            text);
  CommEvent done;
  done.record(channel.stream());
  job.await(done, text);
}

// Within a group NCCL accepts calls while the communicator is still busy.
bool is_taken(ncclResult_t result) {
  return result == ncclSuccess || result == ncclInProgress;
}

}  // namespace

NcclCommunicator::NcclCommunicator(std::shared_ptr<NcclJob> job, std::shared_ptr<Communicator> host)
    : job_(std::move(job)), host_(std::move(host)), channel_(job_->make_channel(group_of(*host_))) {
  show_waits_on(host_->status());
}

void NcclCommunicator::bind_stream(void* compute_stream) {
  job_->set_compute_stream(static_cast<cudaStream_t>(compute_stream));
}

void NcclCommunicator::watch_stream(const std::string& what) {
  job_->throw_if_failed();
  auto done = std::make_shared<CommEvent>();
  done->record(job_->compute_stream());
  job_->add(fmt::format("{} on rank {} of {}", what, rank(), size()), std::move(done));
}

template <class Call, class... Args>
Work NcclCommunicator::enqueue(NcclChannel& channel, std::string text, std::vector<Tensor> tensors, Call call,
                               Args... args) {
  job_->throw_if_failed();
  CommEvent ready;
  ready.record(job_->compute_stream());
  ready.make_wait(channel.stream());
  job_->check(channel.run(job_->timeout(),
                          [&](ncclComm_t comm, cudaStream_t stream) { return call(args..., comm, stream); }),
              text);
  auto done = std::make_shared<CommEvent>();
  done->record(channel.stream());
  job_->add(std::move(text), done);
  return Work(std::make_unique<NcclWork>(job_, std::move(done), std::move(tensors)));
}

template <class Call, class... Args>
Work NcclCommunicator::collective(CallKind kind, const Tensor& a, const Tensor& b, Call call, Args... args) {
  std::string text = fmt::format("{} of {} {} on rank {} of {}", name(kind), name(a.dtype()),
                                 a.shape().to_string(), rank(), size());
  return enqueue(*channel_, std::move(text), {a, b}, call, args...);
}

Work NcclCommunicator::all_reduce_impl(const Tensor& inout, ReduceOp op) {
  return collective(CallKind::kAllReduce, inout, {}, ncclAllReduce, inout.data(), inout.data(),
                    count_of(inout), nccl_type(inout.dtype()), nccl_op(op));
}

Work NcclCommunicator::reduce_scatter_impl(const Tensor& in, const Tensor& out, ReduceOp op) {
  return collective(CallKind::kReduceScatter, in, out, ncclReduceScatter, in.data(), out.data(),
                    count_of(out), nccl_type(in.dtype()), nccl_op(op));
}

Work NcclCommunicator::all_gather_impl(const Tensor& in, const Tensor& out) {
  return collective(CallKind::kAllGather, in, out, ncclAllGather, in.data(), out.data(), count_of(in),
                    nccl_type(in.dtype()));
}

Work NcclCommunicator::all_to_all_impl(const Tensor& in, const Tensor& out) {
  return collective(CallKind::kAllToAll, in, out, [&](ncclComm_t comm, cudaStream_t stream) {
    const std::size_t count = count_of(in) / static_cast<std::size_t>(size());
    const std::int64_t bytes = static_cast<std::int64_t>(count) * size_bytes(in.dtype());
    const ncclDataType_t type = nccl_type(in.dtype());
    ncclResult_t result = ncclGroupStart();
    for (int peer = 0; peer < size() && is_taken(result) && count > 0; ++peer) {
      const auto* from = static_cast<const std::byte*>(in.data()) + peer * bytes;
      auto* to = static_cast<std::byte*>(out.data()) + peer * bytes;
      result = ncclSend(from, count, type, peer, comm, stream);
      if (is_taken(result)) result = ncclRecv(to, count, type, peer, comm, stream);
    }
    const ncclResult_t end = ncclGroupEnd();
    return is_taken(result) ? end : result;
  });
}

Work NcclCommunicator::broadcast_impl(const Tensor& inout, int root) {
  return collective(CallKind::kBroadcast, inout, {}, ncclBroadcast, inout.data(), inout.data(),
                    count_of(inout), nccl_type(inout.dtype()), root);
}

void NcclCommunicator::open_channels_impl(const std::vector<MessageChannel>& channels) {
  job_->throw_if_failed();
  const auto mine = std::ranges::count(channels, rank(), &MessageChannel::source);
  const std::vector<std::string> ids = host_->all_gather_strings(make_ids(static_cast<std::size_t>(mine)));
  std::vector<std::size_t> taken(ids.size(), 0);    // used ids of each rank
  for (const MessageChannel& channel : channels) {  // in the same order on all ranks: each connects two
    const auto source = static_cast<std::size_t>(channel.source);
    const std::size_t index = taken[source]++;
    if (channel.source != rank() && channel.destination != rank()) continue;
    message_channels_[channel] =
        job_->make_channel({.text = fmt::format("NCCL from rank {} to rank {} of {}, tag {}", channel.source,
                                                channel.destination, size(), channel.tag),
                            .id = id_at(ids[source], index),
                            .rank = channel.source == rank() ? 0 : 1,
                            .size = 2,
                            .most_blocks = kChannelBlocks});
    connect(*job_, *message_channels_[channel],
            fmt::format("the first message from rank {} to rank {} of {}, tag {},", channel.source,
                        channel.destination, size(), channel.tag),
            channel.source == rank());
  }
}

Work NcclCommunicator::send_impl(const Tensor& tensor, int peer, int tag) {
  std::string text = fmt::format("send of {} {} on rank {} of {} to rank {}, tag {}", name(tensor.dtype()),
                                 tensor.shape().to_string(), rank(), size(), peer, tag);
  NcclChannel& channel = *message_channels_.at({.source = rank(), .destination = peer, .tag = tag});
  return enqueue(channel, std::move(text), {tensor}, [&](ncclComm_t comm, cudaStream_t stream) {
    if (tensor.num_elems() == 0) return ncclSuccess;  // NCCL accepts no empty messages
    return ncclSend(tensor.data(), count_of(tensor), nccl_type(tensor.dtype()), 1, comm, stream);
  });
}

Work NcclCommunicator::recv_impl(const Tensor& tensor, int peer, int tag) {
  std::string text = fmt::format("recv of {} {} on rank {} of {} from rank {}, tag {}", name(tensor.dtype()),
                                 tensor.shape().to_string(), rank(), size(), peer, tag);
  NcclChannel& channel = *message_channels_.at({.source = peer, .destination = rank(), .tag = tag});
  return enqueue(channel, std::move(text), {tensor}, [&](ncclComm_t comm, cudaStream_t stream) {
    if (tensor.num_elems() == 0) return ncclSuccess;
    return ncclRecv(tensor.data(), count_of(tensor), nccl_type(tensor.dtype()), 0, comm, stream);
  });
}

void NcclCommunicator::barrier_impl() {
  job_->throw_if_failed();
  host_->barrier();
}

std::vector<std::string> NcclCommunicator::all_gather_strings_impl(const std::string& text) {
  return host_->all_gather_strings(text);
}

void NcclCommunicator::all_gather_values_impl(std::span<const std::byte> mine, std::span<std::byte> all) {
  std::ranges::copy(host_->all_gather_values(mine), all.begin());
}

std::shared_ptr<Communicator> NcclCommunicator::split(int color) {
  TRIREME_CHECK(color >= 0, "split on rank {} of {}: color {} must not be negative", rank(), size(), color);
  job_->throw_if_failed();
  return std::make_shared<NcclCommunicator>(job_, host_->split(color));
}

}  // namespace trireme
