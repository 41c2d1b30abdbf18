#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "parallel/comm/local.h"
#include "runtime/base/error.h"
#include "tests/kernels/cuda/emulation/emulation.h"
#include "tests/parallel/comm/message_channels.h"
#include "tests/parallel/comm/nccl_emulation/nccl_emulation.h"
#include "tests/parallel/comm/test_memory.h"

using namespace trireme;

struct EmulatedNcclComm {
  std::shared_ptr<Communicator> streams;  // moves the data of the streams
  std::shared_ptr<Communicator> hosts;    // synchronises the hosts when they connect
  TestMemory memory{DeviceType::kCpu};
  std::set<std::pair<CallKind, int>> connected;  // calls and peers
  std::atomic<bool> lost_peer = false;
  ncclUniqueId id{};
  std::atomic<int> users = 0;       // threads inside a call
  std::atomic<bool> ended = false;  // destroyed or aborted
  // A call that connects, on its own thread.
  std::future<ncclResult_t> connecting;
};

namespace {

std::atomic<int> failing_operations{-1}, failing_setup{-1}, num_misuses{0};
std::atomic<bool> setup_hangs{false};

// Scope of a program's call with a communicator.
class Use {
 public:
  explicit Use(ncclComm_t comm) : comm_(comm) {
    if (comm_->users.fetch_add(1) > 0 || comm_->ended) ++num_misuses;
  }
  ~Use() { --comm_->users; }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

 private:
  const ncclComm_t comm_;
};

struct Worlds {
  struct Pair {
    std::shared_ptr<LocalWorld> streams, hosts;
    int size = 0, arrived = 0;
  };
  std::mutex mutex;
  int next = 0;
  std::map<std::string, Pair> by_id;
  // Kept until the process ends: a rank may be inside a call while its watchdog aborts.
  std::vector<std::unique_ptr<EmulatedNcclComm>> aborted;
};
Worlds& worlds() {
  static Worlds all;
  return all;
}

// An operation posted to the streams' communicator.
struct UnderWay {
  Work work;
  Tensor result;
  void* out = nullptr;  // null: no result
};

struct Operation {
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  CallKind call = CallKind::kSend;
  int peer = -1;                    // for messages
  std::function<UnderWay()> start;  // runs on the stream's thread
};

// State of one rank, which is a thread.
struct Group {
  int depth = 0;
  std::vector<Operation> operations;
  std::vector<const void*> self_sends;
};
Group& group() {
  thread_local Group state;
  return state;
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

// Blocks the hosts of all ranks of a new connection until all have joined, as NCCL does.
void connect(const std::vector<Operation>& operations) {
  std::vector<Work> works;
  for (const Operation& one : operations) {
    EmulatedNcclComm& comm = *one.comm;
    if (one.peer == comm.hosts->rank() || !comm.connected.insert({one.call, one.peer}).second) continue;
    const Tensor byte = comm.memory.empty(1, DType::kUInt8);
    if (one.call == CallKind::kSend) {
      works.push_back(comm.hosts->send(byte, one.peer, 0));
    } else if (one.call == CallKind::kRecv) {
      works.push_back(comm.hosts->recv(byte, one.peer, 0));
    } else {
      comm.hosts->barrier();
    }
  }
  for (Work& work : works) work.wait();
}

// Runs on the stream's thread. The operations of a group progress concurrently.
void play(const std::vector<Operation>& operations) {
  try {
    std::vector<UnderWay> all;
    for (const Operation& one : operations) all.push_back(one.start());
    for (UnderWay& one : all) {
      one.work.wait();
      const auto bytes = static_cast<std::size_t>(one.result.defined() ? one.result.size_bytes() : 0);
      if (one.out != nullptr && bytes > 0) std::memcpy(one.out, one.result.data(), bytes);
    }
  } catch (const Error&) {
    operations.front().comm->lost_peer = true;
  }
}

bool are_connected(const std::vector<Operation>& operations) {
  return std::ranges::all_of(operations, [](const Operation& one) {
    return one.peer == one.comm->hosts->rank() || one.comm->connected.contains({one.call, one.peer});
  });
}

void give_to_stream(std::vector<Operation> operations) {
  const cudaStream_t stream = operations.front().stream;
  emulated_give_thread(stream);
  emulated_enqueue(stream, [all = std::move(operations)] { play(all); });
}

// All operations belong to one communicator.
ncclResult_t launch(std::vector<Operation> operations) {
  if (operations.empty()) return ncclSuccess;
  const ncclComm_t comm = operations.front().comm;
  if (are_connected(operations)) {
    give_to_stream(std::move(operations));
    return ncclSuccess;
  }
  comm->connecting = std::async(std::launch::async, [all = std::move(operations)]() mutable {
    try {
      connect(all);
    } catch (const Error&) {
      return ncclRemoteError;
    }
    give_to_stream(std::move(all));
    return ncclSuccess;
  });
  return ncclInProgress;
}

ncclResult_t enqueue(Operation operation) {
  const Use use(operation.comm);
  if (group().depth == 0) return launch({std::move(operation)});
  group().operations.push_back(std::move(operation));
  return ncclSuccess;
}

// Input is read, and output written, when the stream reaches the operation.
struct Buffers {
  const void* in = nullptr;
  std::size_t in_count = 0, out_count = 0;  // 0 out_count: in place
  void* out = nullptr;
  ncclDataType_t type = ncclUint8;
};
template <class Start>
ncclResult_t enqueue_collective(CallKind call, ncclComm_t comm, cudaStream_t stream, const Buffers& buffers,
                                Start start) {
  return enqueue({.comm = comm, .stream = stream, .call = call, .start = [=] {
                    const Tensor input = copy(comm, buffers.in, buffers.in_count, buffers.type);
                    const Tensor result =
                        buffers.out_count > 0 ? space(comm, buffers.out_count, buffers.type) : input;
                    return UnderWay{start(*comm->streams, input, result), result, buffers.out};
                  }});
}

}  // namespace

namespace nccl_emulation {

void fail_operations_of(int rank) {
  failing_operations = rank;
}
void fail_setup_of(int rank) {
  failing_setup = rank;
}
void never_set_up(bool on) {
  setup_hangs = on;
}
int misuses() {
  return num_misuses;
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
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (config->blocking != 0) return ncclInvalidArgument;
  const std::lock_guard lock(worlds().mutex);
  Worlds::Pair& pair = worlds().by_id[id.internal];
  if (!pair.streams)
    pair = {std::make_shared<LocalWorld>(size), std::make_shared<LocalWorld>(size), size,
            setup_hangs ? -1 : 0};
  ++pair.arrived;
  if (rank == failing_setup) return ncclSystemError;
  *comm = new EmulatedNcclComm{pair.streams->communicator(rank), pair.hosts->communicator(rank)};
  open_channels_of_pairs(*(*comm)->streams, {0});
  open_channels_of_pairs(*(*comm)->hosts, {0});
  (*comm)->id = id;
  return ncclInProgress;
}
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  const Use use(comm);
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  { const Use use(comm); }
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const Use use(comm);
  comm->ended = true;
  const Error aborted(ErrorCode::kCommunication, "NCCL was aborted");
  comm->streams->abort(aborted);
  comm->hosts->abort(aborted);
  if (comm->connecting.valid()) comm->connecting.wait();
  const std::lock_guard lock(worlds().mutex);
  worlds().aborted.emplace_back(comm);
  return ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  const Use use(comm);
  {
    const std::lock_guard lock(worlds().mutex);
    const Worlds::Pair& pair = worlds().by_id.at(comm->id.internal);
    *error = pair.arrived < pair.size ? ncclInProgress : ncclSuccess;
  }
  if (comm->connecting.valid()) {
    const bool ready = comm->connecting.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    *error = ready ? comm->connecting.get() : ncclInProgress;
  }
  if (comm->streams->rank() == failing_operations || comm->lost_peer) *error = ncclRemoteError;
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
  ++group().depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (--group().depth > 0) return ncclSuccess;
  group().self_sends.clear();
  return launch(std::exchange(group().operations, {}));
}

ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return enqueue_collective(CallKind::kAllReduce, comm, stream,
                            {.in = in, .in_count = count, .out = out, .type = type},
                            [op](Communicator& local, const Tensor& input, const Tensor&) {
                              return local.all_reduce(input, op_of(op));
                            });
}
ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t out_count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  const std::size_t in_count = out_count * static_cast<std::size_t>(comm->streams->size());
  return enqueue_collective(
      CallKind::kReduceScatter, comm, stream,
      {.in = in, .in_count = in_count, .out_count = out_count, .out = out, .type = type},
      [op](Communicator& local, const Tensor& input, const Tensor& result) {
        return local.reduce_scatter(input, result, op_of(op));
      });
}
ncclResult_t ncclAllGather(const void* in, void* out, std::size_t in_count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  const std::size_t out_count = in_count * static_cast<std::size_t>(comm->streams->size());
  return enqueue_collective(
      CallKind::kAllGather, comm, stream,
      {.in = in, .in_count = in_count, .out_count = out_count, .out = out, .type = type},
      [](Communicator& local, const Tensor& input, const Tensor& result) {
        return local.all_gather(input, result);
      });
}
ncclResult_t ncclBroadcast(const void* in, void* out, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return enqueue_collective(CallKind::kBroadcast, comm, stream,
                            {.in = in, .in_count = count, .out = out, .type = type},
                            [root](Communicator& local, const Tensor& input, const Tensor&) {
                              return local.broadcast(input, root);
                            });
}
ncclResult_t ncclSend(const void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  if (peer == comm->streams->rank()) {
    group().self_sends.push_back(data);
    return ncclSuccess;
  }
  return enqueue({comm, stream, CallKind::kSend, peer, [=] {
                    const Tensor input = copy(comm, data, count, type);
                    return UnderWay{comm->streams->send(input, peer, 0), input, nullptr};
                  }});
}
// Within a group a rank sends to itself just before it receives, as NcclCommunicator does.
ncclResult_t ncclRecv(void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  if (peer == comm->streams->rank()) {
    const void* sent = group().self_sends.back();
    return enqueue({comm, stream, CallKind::kRecv, peer, [=] {
                      return UnderWay{{}, copy(comm, sent, count, type), data};
                    }});
  }
  return enqueue({comm, stream, CallKind::kRecv, peer, [=] {
                    const Tensor result = space(comm, count, type);
                    return UnderWay{comm->streams->recv(result, peer, 0), result, data};
                  }});
}
