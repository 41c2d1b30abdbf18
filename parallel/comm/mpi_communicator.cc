#include "parallel/comm/mpi_communicator.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "parallel/comm/mpi.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

// 16-bit and 8-bit floats are moved as bits; Communicator rejects reducing them.
MPI_Datatype mpi_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return MPI_FLOAT;
    case DType::kInt32:
      return MPI_INT32_T;
    case DType::kFloat16:
    case DType::kBFloat16:
      return MPI_UINT16_T;
    case DType::kUInt8:
    case DType::kE4m3:
    case DType::kE5m2:
      return MPI_UINT8_T;
  }
  return MPI_DATATYPE_NULL;
}

MPI_Op mpi_op(ReduceOp op) {
  return op == ReduceOp::kSum ? MPI_SUM : MPI_MAX;
}

std::byte* at(const Tensor& tensor, std::int64_t elem) {
  return static_cast<std::byte*>(tensor.data()) + elem * size_bytes(tensor.dtype());
}

// Length of the runs in which a reduction is split. Open MPI reduces a long buffer through a scratch buffer
// of the same length. In cache-sized runs, several in flight at once, 128 MiB took 0.4 of the time between
// two ranks on a node. Shorter buffers are split as well, so that a slow wire stays busy while the rounds of
// one run wait for peers.
std::int64_t reduction_run(std::int64_t num_elems) {
  constexpr std::int64_t kRuns = 16, kShortest = std::int64_t{1} << 16, kLongest = std::int64_t{1} << 20;
  return std::clamp(num_elems / kRuns, kShortest, kLongest);
}

// Calls run(first element, count) for each run of at most `limit` of n elements.
template <class F>
void for_runs(std::int64_t n, std::int64_t limit, F run) {
  for (std::int64_t first = 0; first < n; first += limit) {
    run(first, static_cast<int>(std::min(limit, n - first)));
  }
}

// Posts requests and waits for them. Unfinished requests are moved to the job, with their tensors.
class MpiWork : public Work::Impl {
 public:
  MpiWork(std::shared_ptr<MpiJob> job, std::string call, const Tensor& a, const Tensor& b = {})
      : job_(std::move(job)), call_(std::move(call)) {
    operation_.tensors = {a, b};
    if (job_->progress) turning_ = job_->progress->turn();
    if (!job_->abandoned.empty()) job_->release_abandoned();
  }

  ~MpiWork() override {
    const auto active = [](MPI_Request request) { return request != MPI_REQUEST_NULL; };
    if (std::ranges::any_of(operation_.requests, active)) job_->abandoned.push_back(std::move(operation_));
  }

  /// Makes one MPI call, whose last argument is the request. Returns its index among the operation's
  /// requests.
  template <class Call, class... Args>
  std::size_t post(Call call, Args... args) {
    MPI_Request request = MPI_REQUEST_NULL;
    job_->check(call(args..., &request), call_);
    operation_.requests.push_back(request);
    return operation_.requests.size() - 1;
  }

  MPI_Datatype make_type(MPI_Datatype base, int count, std::int64_t stride) {
    return operation_.types.emplace_back(std::make_unique<MpiType>(base, count, stride))->get();
  }

  // Waits one by one: MPI_Waitall of Open MPI 4.1 spins for ever when one of its requests has failed before
  // the call.
  void wait() override {
    if (!job_->sleeps) turning_.stop();  // this thread moves the data from now on
    auto expected = expected_.begin();
    for (std::size_t i = 0; i < operation_.requests.size(); ++i) {
      MPI_Status status;
      job_->check(job_->wait(&operation_.requests[i], &status), call_);
      if (expected != expected_.end() && expected->index == i) check_received(*expected++, status);
    }
    turning_.stop();
  }

  void abandon() noexcept override {}  // done by the destructor

  /// Expects a receive of `count` elements of `type` by request number `index`.
  void expect(std::size_t index, MPI_Datatype type, int count) { expected_.push_back({index, type, count}); }

 private:
  struct Expected {
    std::size_t index;
    MPI_Datatype type;
    int count;
  };

  void check_received(const Expected& expected, const MPI_Status& status) const {
    int received = 0;
    MPI_Get_count(&status, expected.type, &received);
    if (received == expected.count) return;
    throw Error(ErrorCode::kCommunication, "{} expected {} elements, the peer sent {}", call_, expected.count,
                received == MPI_UNDEFINED ? "another dtype" : std::to_string(received));
  }

  std::shared_ptr<MpiJob> job_;
  std::string call_;
  MpiOperation operation_;
  MpiProgress::Turning turning_;  // while the operation is in flight
  std::vector<Expected> expected_;
};

// Identifies a host by the first rank that shares its memory. Host names may not be unique.
std::vector<int> find_hosts(const MpiJob& job, MPI_Comm comm, int rank, int size) {
  MPI_Comm node = MPI_COMM_NULL;
  job.check(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node),
            "MPI_Comm_split_type");
  int first = rank;
  job.check(MPI_Bcast(&first, 1, MPI_INT, 0, node), "MPI_Bcast of a host's first rank");
  MPI_Comm_free(&node);
  std::vector<int> firsts(static_cast<std::size_t>(size));
  job.check(MPI_Allgather(&first, 1, MPI_INT, firsts.data(), 1, MPI_INT, comm),
            "MPI_Allgather of hosts' first ranks");
  std::vector<int> numbers(static_cast<std::size_t>(size), 0);  // by first rank
  int num_hosts = 0;
  for (std::size_t r = 0; r < firsts.size(); ++r) {
    if (firsts[r] == static_cast<int>(r)) numbers[r] = num_hosts++;
  }
  std::vector<int> hosts;
  for (const int of_rank : firsts) hosts.push_back(numbers[static_cast<std::size_t>(of_rank)]);
  return hosts;
}

}  // namespace

MpiCommunicator::MpiCommunicator(std::shared_ptr<MpiJob> job, MPI_Comm comm, std::int64_t max_count)
    : job_(std::move(job)), comm_(comm), max_count_(max_count) {
  show_waits_on(job_->status);
  MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  MPI_Comm_rank(comm_, &rank_);
  MPI_Comm_size(comm_, &size_);
  hosts_ = find_hosts(*job_, comm_, rank_, size_);
}

bool MpiCommunicator::spans_machines() const {
  return std::ranges::any_of(hosts_, [](int host) { return host > 0; });
}

MpiCommunicator::~MpiCommunicator() {
  // After a failure the communicator may have operations that never end; the process is about to exit.
  if (job_->aborted || std::uncaught_exceptions() > 0 || !job_->abandoned.empty()) return;
  if (mpi_is_running()) MPI_Comm_free(&comm_);
}

std::int64_t MpiCommunicator::max_piece() const {
  return std::max<std::int64_t>(1, max_count_ / size_);
}

std::string MpiCommunicator::where(CallKind call) const {
  return fmt::format("{} on rank {} of {}", name(call), rank_, size_);
}

std::shared_ptr<Communicator> MpiCommunicator::split(int color) {
  TRIREME_CHECK(color >= 0, "split on rank {} of {}: color {} must not be negative", rank_, size_, color);
  MPI_Comm group = MPI_COMM_NULL;
  job_->check(MPI_Comm_split(comm_, color, rank_, &group), where(CallKind::kSplit));
  return std::make_shared<MpiCommunicator>(job_, group, max_count_);
}

Work MpiCommunicator::all_reduce_impl(const Tensor& inout, ReduceOp op) {
  auto work = std::make_unique<MpiWork>(job_, where(CallKind::kAllReduce), inout);
  const std::int64_t run = std::min(max_count_, reduction_run(inout.num_elems()));
  for_runs(inout.num_elems(), run, [&](std::int64_t first, int count) {
    work->post(MPI_Iallreduce, MPI_IN_PLACE, at(inout, first), count, mpi_type(inout.dtype()), mpi_op(op),
               comm_);
  });
  return Work(std::move(work));
}

Work MpiCommunicator::reduce_scatter_impl(const Tensor& in, const Tensor& out, ReduceOp op) {
  auto work = std::make_unique<MpiWork>(job_, where(CallKind::kReduceScatter), in, out);
  const std::int64_t n = out.num_elems();
  const MPI_Datatype type = mpi_type(in.dtype());
  // Sends each piece only to its owner, all pieces at once. MPI_Ireduce_scatter_block of Open MPI 4.1 first
  // sums everything on one rank: on a slow wire that took nearly twice as long.
  for (int owner = 0; owner < size_; ++owner) {
    for_runs(n, max_count_, [&](std::int64_t first, int count) {
      work->post(MPI_Ireduce, at(in, owner * n + first), at(out, first), count, type, mpi_op(op), owner,
                 comm_);
    });
  }
  return Work(std::move(work));
}

Work MpiCommunicator::all_gather_impl(const Tensor& in, const Tensor& out) {
  auto work = std::make_unique<MpiWork>(job_, where(CallKind::kAllGather), in, out);
  const std::int64_t n = in.num_elems();
  const MPI_Datatype type = mpi_type(in.dtype());
  const bool in_place = in.data() == at(out, rank_ * n);
  for_runs(n, max_piece(), [&](std::int64_t first, int count) {
    const void* from = in_place ? MPI_IN_PLACE : at(in, first);
    if (count == n) {
      work->post(MPI_Iallgather, from, count, type, out.data(), count, type, comm_);
      return;
    }
    const MPI_Datatype runs = work->make_type(type, count, n);
    work->post(MPI_Iallgather, from, count, type, at(out, first), 1, runs, comm_);
  });
  return Work(std::move(work));
}

Work MpiCommunicator::all_to_all_impl(const Tensor& in, const Tensor& out) {
  auto work = std::make_unique<MpiWork>(job_, where(CallKind::kAllToAll), in, out);
  const std::int64_t n = in.num_elems() / size_;
  const MPI_Datatype type = mpi_type(in.dtype());
  for_runs(n, max_piece(), [&](std::int64_t first, int count) {
    if (count == n) {
      work->post(MPI_Ialltoall, in.data(), count, type, out.data(), count, type, comm_);
      return;
    }
    const MPI_Datatype runs = work->make_type(type, count, n);
    work->post(MPI_Ialltoall, at(in, first), 1, runs, at(out, first), 1, runs, comm_);
  });
  return Work(std::move(work));
}

Work MpiCommunicator::broadcast_impl(const Tensor& inout, int root) {
  auto work = std::make_unique<MpiWork>(job_, where(CallKind::kBroadcast), inout);
  for_runs(inout.num_elems(), max_count_, [&](std::int64_t first, int count) {
    work->post(MPI_Ibcast, at(inout, first), count, mpi_type(inout.dtype()), root, comm_);
  });
  return Work(std::move(work));
}

// An empty tensor is still a message: it keeps its position in the order.
Work MpiCommunicator::send_impl(const Tensor& tensor, int peer, int tag) {
  auto work = std::make_unique<MpiWork>(
      job_, fmt::format("{} to rank {}, tag {}", where(CallKind::kSend), peer, tag), tensor);
  const auto send_run = [&](std::int64_t first, int count) {
    work->post(MPI_Isend, at(tensor, first), count, mpi_type(tensor.dtype()), peer, tag, comm_);
  };
  if (tensor.num_elems() == 0) send_run(0, 0);
  for_runs(tensor.num_elems(), max_count_, send_run);
  return Work(std::move(work));
}

Work MpiCommunicator::recv_impl(const Tensor& tensor, int peer, int tag) {
  auto work = std::make_unique<MpiWork>(
      job_, fmt::format("{} from rank {}, tag {}", where(CallKind::kRecv), peer, tag), tensor);
  const MPI_Datatype type = mpi_type(tensor.dtype());
  const auto receive_run = [&](std::int64_t first, int count) {
    const std::size_t index = work->post(MPI_Irecv, at(tensor, first), count, type, peer, tag, comm_);
    work->expect(index, type, count);
  };
  if (tensor.num_elems() == 0) receive_run(0, 0);
  for_runs(tensor.num_elems(), max_count_, receive_run);
  return Work(std::move(work));
}

void MpiCommunicator::barrier_impl() {
  job_->call(where(CallKind::kBarrier), MPI_Barrier, MPI_Ibarrier, comm_);
}

std::vector<std::string> MpiCommunicator::all_gather_strings_impl(const std::string& text) {
  const std::string call = where(CallKind::kAllGatherStrings);
  const std::int64_t length = static_cast<std::int64_t>(text.size());
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(size_));
  job_->call(call, MPI_Allgather, MPI_Iallgather, &length, 1, MPI_INT64_T, lengths.data(), 1, MPI_INT64_T,
             comm_);
  std::vector<int> counts;
  std::vector<int> offsets;
  std::int64_t total = 0;
  for (const std::int64_t one : lengths) {
    counts.push_back(static_cast<int>(one));
    offsets.push_back(static_cast<int>(total));
    total += one;
    // Every rank computes the same total, so no rank is left waiting.
    TRIREME_CHECK(total <= kMaxMpiCount, "{}: the texts of all ranks have more than {} bytes in all", call,
                  kMaxMpiCount);
  }
  std::string all(static_cast<std::size_t>(total), '\0');
  job_->call(call, MPI_Allgatherv, MPI_Iallgatherv, text.data(), static_cast<int>(length), MPI_CHAR,
             all.data(), counts.data(), offsets.data(), MPI_CHAR, comm_);
  std::vector<std::string> texts;
  for (std::size_t r = 0; r < counts.size(); ++r) {
    texts.push_back(all.substr(static_cast<std::size_t>(offsets[r]), static_cast<std::size_t>(counts[r])));
  }
  return texts;
}

void MpiCommunicator::all_gather_values_impl(std::span<const std::byte> mine, std::span<std::byte> all) {
  const std::string call = where(CallKind::kAllGatherValues);
  TRIREME_CHECK(all.size() <= static_cast<std::size_t>(kMaxMpiCount),
                "{}: the values of all ranks are longer than {} bytes together", call, kMaxMpiCount);
  const auto bytes = static_cast<int>(mine.size());
  job_->call(call, MPI_Allgather, MPI_Iallgather, mine.data(), bytes, MPI_BYTE, all.data(), bytes, MPI_BYTE,
             comm_);
}

}  // namespace trireme
