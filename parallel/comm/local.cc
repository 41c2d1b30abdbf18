#include "parallel/comm/local.h"

#include <algorithm>
#include <iterator>
#include <thread>
#include <utility>

#include "parallel/comm/local_board.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

class LocalWork : public Work::Impl {
 public:
  LocalWork(std::shared_ptr<LocalBoard> board, std::shared_ptr<LocalMeeting> meeting, int world_rank)
      : board_(std::move(board)), meeting_(std::move(meeting)), world_rank_(world_rank) {}

  void wait() override { board_->wait(*meeting_, world_rank_); }
  // The meeting has its own references to the tensors.
  void abandon() noexcept override {}

 private:
  std::shared_ptr<LocalBoard> board_;
  std::shared_ptr<LocalMeeting> meeting_;
  int world_rank_;
};

class LocalCommunicator : public Communicator {
 public:
  LocalCommunicator(std::shared_ptr<LocalBoard> board, std::shared_ptr<LocalGroup> group, int member)
      : board_(std::move(board)), group_(std::move(group)), member_(member) {
    show_waits_on(board_->status(world_rank()));
  }

  int rank() const override { return member_; }
  int size() const override { return static_cast<int>(group_->world_ranks.size()); }
  std::string kind() const override { return "local"; }
  DeviceType device_type() const override { return DeviceType::kCpu; }

  std::shared_ptr<Communicator> split(int color) override {
    TRIREME_CHECK(color >= 0, "split on rank {} of {}: color {} must not be negative", rank(), size(), color);
    const auto meeting = meet({.kind = CallKind::kSplit}, {.color = color});
    const auto m = static_cast<std::size_t>(member_);
    return std::make_shared<LocalCommunicator>(board_, meeting->groups[m], meeting->members[m]);
  }

  void abort(const Error& error) noexcept override { board_->fail({world_rank(), error}); }

 protected:
  Work all_reduce_impl(const Tensor& inout, ReduceOp op) override {
    return post(signature_of(CallKind::kAllReduce, inout, inout, op), {.in = inout});
  }
  Work reduce_scatter_impl(const Tensor& in, const Tensor& out, ReduceOp op) override {
    return post(signature_of(CallKind::kReduceScatter, in, out, op), {.in = in, .out = out});
  }
  Work all_gather_impl(const Tensor& in, const Tensor& out) override {
    return post(signature_of(CallKind::kAllGather, in, out), {.in = in, .out = out});
  }
  Work all_to_all_impl(const Tensor& in, const Tensor& out) override {
    return post(signature_of(CallKind::kAllToAll, in, out), {.in = in, .out = out});
  }
  Work broadcast_impl(const Tensor& inout, int root) override {
    CallSignature signature = signature_of(CallKind::kBroadcast, inout, inout);
    signature.root = root;
    return post(signature, {.in = inout});
  }
  Work send_impl(const Tensor& tensor, int peer, int tag) override {
    return post_message(CallKind::kSend, tensor, peer, tag);
  }
  Work recv_impl(const Tensor& tensor, int peer, int tag) override {
    return post_message(CallKind::kRecv, tensor, peer, tag);
  }
  void barrier_impl() override { meet({.kind = CallKind::kBarrier}, {}); }
  std::vector<std::string> all_gather_strings_impl(const std::string& text) override {
    return meet({.kind = CallKind::kAllGatherStrings}, {.text = text})->texts;
  }
  void all_gather_values_impl(std::span<const std::byte> mine, std::span<std::byte> all) override {
    const auto bytes = static_cast<std::int64_t>(mine.size());
    const auto meeting =
        meet({.kind = CallKind::kAllGatherValues, .in_elems = bytes, .out_elems = std::ssize(all)},
             {.values = {mine.begin(), mine.end()}});
    std::ranges::copy(meeting->values, all.begin());
  }

 private:
  int world_rank() const { return group_->world_ranks[static_cast<std::size_t>(member_)]; }

  static CallSignature signature_of(CallKind kind, const Tensor& in, const Tensor& out,
                                    ReduceOp op = ReduceOp::kSum) {
    return {.kind = kind,
            .dtype = in.dtype(),
            .in_elems = in.num_elems(),
            .out_elems = out.num_elems(),
            .op = op};
  }

  Work make_work(std::shared_ptr<LocalMeeting> meeting) const {
    return Work(std::make_unique<LocalWork>(board_, std::move(meeting), world_rank()));
  }

  Work post(const CallSignature& signature, CallPart part) {
    return make_work(board_->post_collective(*group_, member_, signature, std::move(part)));
  }

  Work post_message(CallKind kind, const Tensor& tensor, int peer, int tag) {
    const CallSignature signature = signature_of(kind, tensor, tensor);
    return make_work(board_->post_message(*group_, member_, peer, tag, signature, {.in = tensor}));
  }

  /// Posts a blocking collective and waits for it.
  std::shared_ptr<LocalMeeting> meet(const CallSignature& signature, CallPart part) {
    const auto meeting = board_->post_collective(*group_, member_, signature, std::move(part));
    board_->wait(*meeting, world_rank());
    return meeting;
  }

  std::shared_ptr<LocalBoard> board_;
  std::shared_ptr<LocalGroup> group_;
  int member_;
};

}  // namespace

LocalWorld::LocalWorld(int size) : size_(size) {
  TRIREME_CHECK(size >= 1, "a world needs at least one rank, got {}", size);
  board_ = std::make_shared<LocalBoard>(size);
}

std::shared_ptr<Communicator> LocalWorld::communicator(int rank) const {
  TRIREME_CHECK(rank >= 0 && rank < size_, "there is no rank {} in a world of {}", rank, size_);
  return std::make_shared<LocalCommunicator>(board_, board_->world(), rank);
}

void LocalWorld::finish(int rank) const noexcept {
  board_->finish(rank);
}

void run_local_ranks(int size, const std::function<void(std::shared_ptr<Communicator>)>& rank_main) {
  const LocalWorld world(size);
  LocalBoard& board = *world.board_;
  const auto run_rank = [&](int rank) {
    try {
      rank_main(world.communicator(rank));
    } catch (const Error& error) {
      board.fail({rank, error});
    } catch (const std::exception& error) {
      board.fail({rank, Error(ErrorCode::kRuntime, std::string(error.what()))});
    } catch (...) {
      board.fail({rank, Error(ErrorCode::kRuntime, "an exception of unknown type")});
    }
    world.finish(rank);
  };
  {
    std::vector<std::jthread> threads;
    try {
      for (int rank = 0; rank < size; ++rank) threads.emplace_back(run_rank, rank);
    } catch (const std::exception& error) {  // no more threads: release the running ones
      const auto rank = static_cast<int>(threads.size());
      board.fail({rank, Error(ErrorCode::kRuntime, "cannot start its thread: {}", error.what())});
    }
  }
  if (const auto failure = board.failure()) {
    throw failure->error.saying(naming_rank(failure->rank, failure->error.what()));
  }
}

}  // namespace trireme
