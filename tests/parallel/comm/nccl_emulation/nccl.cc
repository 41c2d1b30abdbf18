#include <nccl.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "parallel/comm/local.h"
#include "runtime/base/error.h"
#include "tests/kernels/cuda/emulation/emulation.h"
#include "tests/parallel/comm/nccl_emulation/nccl_emulation.h"
#include "tests/parallel/comm/test_memory.h"

using namespace trireme;

struct EmulatedNcclComm {
  std::shared_ptr<Communicator> local;
  TestMemory memory{DeviceType::kCpu};
};

namespace {

std::atomic<int> failing_operations{-1}, failing_setup{-1};

struct Worlds {
  std::mutex mutex;
  int next = 0;
  std::map<std::string, std::shared_ptr<LocalWorld>> by_id;
  // Until the process ends: the rank may be inside of a call while its watchdog aborts.
  std::vector<std::unique_ptr<EmulatedNcclComm>> aborted;
};
Worlds& worlds() {
  static Worlds all;
  return all;
}

struct Pending {
  Work work;
  Tensor result;
  void* out = nullptr;  // null: nothing comes back
};

struct SelfSend {
  std::vector<std::byte> bytes;
};

// Of one rank, which is a thread.
struct Rank {
  int group_depth = 0;
  std::vector<Pending> pending;
  std::vector<SelfSend> self_sends;  // of the group that is open
};
Rank& rank() {
  thread_local Rank state;
  return state;
}

void finish() {
  std::vector<Pending> all = std::move(rank().pending);
  rank().pending.clear();
  for (Pending& one : all) {
    one.work.wait();
    const auto bytes = static_cast<std::size_t>(one.result.size_bytes());
    if (one.out != nullptr && bytes > 0) std::memcpy(one.out, one.result.data(), bytes);
  }
}

DType dtype_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt32:
      return DType::kInt32;
    case ncclFloat16:
      return DType::kFloat16;
    case ncclFloat32:
      return DType::kFloat32;
    case ncclBfloat16:
      return DType::kBFloat16;
    case ncclUint8:
      break;
  }
  return DType::kUInt8;
}

ReduceOp op_of(ncclRedOp_t op) {
  return op == ncclSum ? ReduceOp::kSum : ReduceOp::kMax;
}

Tensor space(ncclComm_t comm, std::size_t count, ncclDataType_t type) {
  return comm->memory.empty(static_cast<std::int64_t>(count), dtype_of(type));
}
Tensor copy(ncclComm_t comm, const void* in, std::size_t count, ncclDataType_t type) {
  Tensor tensor = space(comm, count, type);
  if (tensor.size_bytes() > 0) std::memcpy(tensor.data(), in, static_cast<std::size_t>(tensor.size_bytes()));
  return tensor;
}

// `start` posts to the local communicator. An earlier result may be this operation's input.
template <class Start>
ncclResult_t enqueue(ncclComm_t comm, const void* in, std::size_t in_count, ncclDataType_t type, void* out,
                     Start start) {
  try {
    if (rank().group_depth == 0) finish();
    const Tensor input = copy(comm, in, in_count, type);
    Tensor result;
    Work work = start(input, result);
    rank().pending.push_back({std::move(work), result.defined() ? result : input, out});
    return ncclSuccess;
  } catch (const Error&) {
    return ncclRemoteError;
  }
}

}  // namespace

namespace nccl_emulation {

void fail_operations_of(int rank) {
  failing_operations = rank;
}
void fail_setup_of(int rank) {
  failing_setup = rank;
}

}  // namespace nccl_emulation

ncclResult_t ncclGetVersion(int* version) {
  *version = 22809;
  return ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::lock_guard lock(worlds().mutex);
  std::memset(id->internal, 0, sizeof(id->internal));
  const std::string name = std::to_string(worlds().next++);
  std::memcpy(id->internal, name.data(), name.size());
  return ncclSuccess;
}
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank_of_comm) {
  if (rank_of_comm == failing_setup) return ncclSystemError;
  emulation::set_default_stream_wait(finish);
  const std::lock_guard lock(worlds().mutex);
  std::shared_ptr<LocalWorld>& world = worlds().by_id[id.internal];
  if (!world) world = std::make_shared<LocalWorld>(size);
  *comm = new EmulatedNcclComm{world->communicator(rank_of_comm)};
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  finish();
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->local->abort("NCCL was aborted");
  const std::lock_guard lock(worlds().mutex);
  worlds().aborted.emplace_back(comm);
  return ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  *error = comm->local->rank() == failing_operations ? ncclRemoteError : ncclSuccess;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclRemoteError ? "remote process exited or there was a network error"
                                   : "unhandled system error";
}
const char* ncclGetLastError(ncclComm_t) {
  return "emulated";
}
ncclResult_t ncclGroupStart() {
  if (rank().group_depth++ == 0) finish();
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (--rank().group_depth == 0) rank().self_sends.clear();
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t) {
  return enqueue(comm, in, count, type, out,
                 [&](const Tensor& input, Tensor&) { return comm->local->all_reduce(input, op_of(op)); });
}
ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t out_count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t) {
  const std::size_t in_count = out_count * static_cast<std::size_t>(comm->local->size());
  return enqueue(comm, in, in_count, type, out, [&](const Tensor& input, Tensor& result) {
    result = space(comm, out_count, type);
    return comm->local->reduce_scatter(input, result, op_of(op));
  });
}
ncclResult_t ncclAllGather(const void* in, void* out, std::size_t in_count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t) {
  return enqueue(comm, in, in_count, type, out, [&](const Tensor& input, Tensor& result) {
    result = space(comm, in_count * static_cast<std::size_t>(comm->local->size()), type);
    return comm->local->all_gather(input, result);
  });
}
ncclResult_t ncclBroadcast(const void* in, void* out, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t) {
  return enqueue(comm, in, count, type, out,
                 [&](const Tensor& input, Tensor&) { return comm->local->broadcast(input, root); });
}
ncclResult_t ncclSend(const void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t) {
  if (peer == comm->local->rank()) {
    const auto* bytes = static_cast<const std::byte*>(data);
    rank().self_sends.push_back(
        {{bytes, bytes + static_cast<std::int64_t>(count) * size_bytes(dtype_of(type))}});
    return ncclSuccess;
  }
  return enqueue(comm, data, count, type, nullptr,
                 [&](const Tensor& input, Tensor&) { return comm->local->send(input, peer, 0); });
}
// Within a group a rank sends to itself before it receives, as NcclCommunicator does.
ncclResult_t ncclRecv(void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t) {
  if (peer == comm->local->rank()) {
    const SelfSend sent = std::move(rank().self_sends.back());
    rank().self_sends.pop_back();
    if (!sent.bytes.empty()) std::memcpy(data, sent.bytes.data(), sent.bytes.size());
    return ncclSuccess;
  }
  return enqueue(comm, nullptr, 0, type, data, [&](const Tensor&, Tensor& result) {
    result = space(comm, count, type);
    return comm->local->recv(result, peer, 0);
  });
}
