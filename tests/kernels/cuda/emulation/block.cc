// The threads of an emulated block, or of the blocks of a cluster.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "tests/kernels/cuda/emulation/emulation.h"
#include "tests/kernels/cuda/emulation/lane_board.h"
#include "tests/kernels/cuda/emulation/stack_switch.h"

constinit thread_local emulation::Index threadIdx{}, blockIdx{}, blockDim{}, gridDim{};

namespace emulation {
namespace {

constexpr unsigned kWarp = 32;

enum class State { kReady, kAtClusterBarrier, kAtBlockBarrier, kAtWarpBarrier, kEnded };

// A thread of a block. It gets a stack when it begins and returns it when it ends. Threads that stop at no
// barrier run on one stack, one after the other.
struct Thread {
  Index index{}, block{};
  State state = State::kReady;
  int phase = 0;  // the warp's board, of two, that the next exchange uses
  Stack* stack = nullptr;
};

// One block, or all blocks of a cluster.
class Cluster {
 public:
  // `blocks`: the indices of the blocks, which have `dim` threads each.
  void run(const std::vector<Index>& blocks, Index dim, const std::function<void()>& thread,
           std::mt19937& random, Order order) {
    if (dim.x * dim.y * dim.z % kWarp != 0) fail("a block that is no whole number of warps");
    thread_ = &thread;
    random_ = &random;
    order_ = order;
    prepare(blocks, dim);
    Thread& first = threads_[current_ = *next()];
    threadIdx = first.index;
    blockIdx = first.block;
    Stack::change(home_, *(first.stack = free_stack()));
  }

  // Stops the running thread in `state`. Returns when the thread continues.
  void stop(State state) {
    Thread& self = threads_[current_];
    self.state = state;
    const unsigned other = *next();
    if (&threads_[other] == &self) return;
    go_on_with(other, *self.stack);
  }

  unsigned lane() const { return current_ % kWarp; }
  unsigned rank() const { return current_ / block_threads_; }

  void expect_running(unsigned rank) const {
    const auto first = threads_.begin() + rank * block_threads_;
    const auto has_ended = [](const Thread& t) { return t.state == State::kEnded; };
    if (std::all_of(first, first + block_threads_, has_ended)) {
      fail("a block reads the shared memory of a block that has ended");
    }
  }

  LaneBoard* exchange(const LaneBoard& own) {
    const unsigned self = current_;
    const int phase = std::exchange(threads_[self].phase, threads_[self].phase ^ 1);
    boards_[phase][self] = own;
    stop(State::kAtWarpBarrier);
    return &boards_[phase][self - self % kWarp];
  }

 private:
  static void enter() noexcept;

  void prepare(const std::vector<Index>& blocks, Index dim) {
    block_threads_ = dim.x * dim.y * dim.z;
    const unsigned count = block_threads_ * static_cast<unsigned>(blocks.size());
    if (turn_.size() != count) {
      threads_.resize(count);
      for (auto& board : boards_) board.resize(count);
    }
    for (unsigned i = 0; i < count; ++i) {
      const unsigned t = i % block_threads_;
      threads_[i] = {.index = {t % dim.x, t / dim.x % dim.y, t / dim.x / dim.y},
                     .block = blocks[i / block_threads_]};
    }
    turn_.resize(count);
    std::iota(turn_.begin(), turn_.end(), 0u);
    if (order_ == Order::kReverse) std::reverse(turn_.begin(), turn_.end());
    if (order_ == Order::kShuffled) std::shuffle(turn_.begin(), turn_.end(), *random_);
    place_ = 0;
    ended_ = 0;
  }

  // The next thread to run. When all threads have stopped, the ones whose barrier is complete continue. Empty
  // when all have ended.
  std::optional<unsigned> next() {
    while (ended_ < turn_.size()) {
      for (; place_ < turn_.size(); ++place_) {
        if (threads_[turn_[place_]].state == State::kReady) return turn_[place_++];
      }
      release();
      place_ = 0;
      if (order_ == Order::kShuffled) std::shuffle(turn_.begin(), turn_.end(), *random_);
    }
    return std::nullopt;
  }

  // Lets all threads of each group of `size` neighbours that has stopped in `state` continue. Returns false
  // if there is none.
  bool release(unsigned size, State state) {
    bool released = false;
    for (auto group = threads_.begin(); group != threads_.end(); group += size) {
      if (!std::all_of(group, group + size, [&](const Thread& t) { return t.state == state; })) continue;
      for (auto t = group; t != group + size; ++t) t->state = State::kReady;
      released = true;
    }
    return released;
  }

  void release() {
    if (release(kWarp, State::kAtWarpBarrier)) return;
    if (release(block_threads_, State::kAtBlockBarrier)) return;
    if (release(static_cast<unsigned>(threads_.size()), State::kAtClusterBarrier)) return;
    fail("threads of a cluster or block, or lanes of a warp, do not meet at the same barrier");
  }

  void go_on_with(unsigned other, Stack& running) {
    Thread& thread = threads_[current_ = other];
    threadIdx = thread.index;
    blockIdx = thread.block;
    if (thread.stack == nullptr) thread.stack = free_stack();
    Stack::change(running, *thread.stack);
  }

  // Ends the running thread. Returns when another one begins on its stack.
  void finish() {
    Stack* const own = threads_[current_].stack;
    threads_[current_].state = State::kEnded;
    ++ended_;
    const std::optional<unsigned> other = next();
    if (other && threads_[*other].stack == nullptr) {
      Thread& thread = threads_[current_ = *other];
      thread.stack = own;
      threadIdx = thread.index;
      blockIdx = thread.block;
      return;
    }
    free_.push_back(own);
    if (other) return go_on_with(*other, *own);
    Stack::change(*own, home_);
  }

  Stack* free_stack() {
    if (free_.empty()) {
      stacks_.push_back(std::make_unique<Stack>(enter));
      return stacks_.back().get();
    }
    Stack* const stack = free_.back();
    free_.pop_back();
    return stack;
  }

  [[noreturn]] static void fail(const char* message) {
    std::fprintf(stderr, "emulated kernel: %s\n", message);
    std::abort();
  }

  const std::function<void()>* thread_ = nullptr;
  std::mt19937* random_ = nullptr;
  Order order_ = Order::kForward;
  Stack home_;  // of the caller
  std::vector<std::unique_ptr<Stack>> stacks_;
  std::vector<Stack*> free_;
  std::vector<Thread> threads_;
  std::vector<LaneBoard> boards_[2];
  std::vector<unsigned> turn_;
  std::size_t place_ = 0;  // in turn_
  unsigned block_threads_ = 0, current_ = 0, ended_ = 0;
};

// The stacks that one host thread's kernels run on.
struct Machine {
  Cluster cluster;
  Order order = Order::kForward;
  std::mt19937 random{1};
  std::vector<std::unique_ptr<std::byte[]>> dynamic_shared;  // by rank in the cluster
};

Machine& machine() {
  static thread_local Machine own;
  return own;
}

void Cluster::enter() noexcept {
  Stack::begun();
  Cluster& cluster = machine().cluster;
  for (;;) {
    (*cluster.thread_)();
    cluster.finish();
  }
}

}  // namespace

void set_order(Order order) {
  machine().order = order;
}

void run_grid(Index grid, Index block, unsigned cluster, std::size_t dynamic_shared_bytes,
              const std::function<void()>& thread) {
  Machine& m = machine();
  gridDim = grid;
  blockDim = block;
  std::vector<std::uint64_t> turn(std::uint64_t{grid.x} * grid.y * grid.z / cluster);
  std::iota(turn.begin(), turn.end(), std::uint64_t{0});
  if (m.order == Order::kReverse) std::reverse(turn.begin(), turn.end());
  if (m.order == Order::kShuffled) std::shuffle(turn.begin(), turn.end(), m.random);
  std::vector<Index> blocks(cluster);
  for (const std::uint64_t c : turn) {
    m.dynamic_shared.clear();
    for (std::uint64_t b = c * cluster; b < (c + 1) * cluster; ++b) {
      blocks[b % cluster] = {static_cast<unsigned>(b % grid.x), static_cast<unsigned>(b / grid.x % grid.y),
                             static_cast<unsigned>(b / grid.x / grid.y)};
      if (dynamic_shared_bytes == 0) continue;
      m.dynamic_shared.push_back(std::make_unique_for_overwrite<std::byte[]>(dynamic_shared_bytes));
      std::memset(m.dynamic_shared.back().get(), 0xff, dynamic_shared_bytes);
    }
    m.cluster.run(blocks, block, thread, m.random, m.order);
  }
}

void cluster_barrier() {
  machine().cluster.stop(State::kAtClusterBarrier);
}
void block_barrier() {
  machine().cluster.stop(State::kAtBlockBarrier);
}
void warp_barrier() {
  machine().cluster.stop(State::kAtWarpBarrier);
}
std::uint64_t exchange(std::uint64_t bits, int lane_mask) {
  const unsigned lane = machine().cluster.lane();
  const LaneBoard* warp = exchange({.word = bits});
  return warp[lane ^ static_cast<unsigned>(lane_mask)].word;
}
LaneBoard* exchange(const LaneBoard& own) {
  return machine().cluster.exchange(own);
}
void* dynamic_shared() {
  const Machine& m = machine();
  return m.dynamic_shared.empty() ? nullptr : m.dynamic_shared[m.cluster.rank()].get();
}
const void* cluster_shared(const void* own, unsigned rank) {
  const Machine& m = machine();
  m.cluster.expect_running(rank);
  const auto offset = static_cast<const std::byte*>(own) - m.dynamic_shared[m.cluster.rank()].get();
  return m.dynamic_shared[rank].get() + offset;
}

}  // namespace emulation
