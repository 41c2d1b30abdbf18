// The threads of an emulated block.
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

enum class State { kReady, kAtBlockBarrier, kAtWarpBarrier, kEnded };

// A thread of the block. It gets a stack when it begins and returns it when it ends. Threads that stop at no
// barrier run on one stack, one after the other.
struct Thread {
  Index index{};
  State state = State::kReady;
  int phase = 0;  // the warp's board, of two, that the next exchange uses
  Stack* stack = nullptr;
};

class Block {
 public:
  void run(Index dim, const std::function<void()>& thread, std::mt19937& random, Order order) {
    if (dim.x * dim.y * dim.z % kWarp != 0) fail("a block that is no whole number of warps");
    thread_ = &thread;
    random_ = &random;
    order_ = order;
    prepare(dim);
    Thread& first = threads_[current_ = *next()];
    threadIdx = first.index;
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

  LaneBoard* exchange(const LaneBoard& own) {
    const unsigned self = current_;
    const int phase = std::exchange(threads_[self].phase, threads_[self].phase ^ 1);
    boards_[phase][self] = own;
    stop(State::kAtWarpBarrier);
    return &boards_[phase][self - self % kWarp];
  }

 private:
  static void enter() noexcept;

  void prepare(Index dim) {
    const unsigned count = dim.x * dim.y * dim.z;
    if (turn_.size() != count) {
      threads_.resize(count);
      for (auto& board : boards_) board.resize(count);
    }
    for (unsigned t = 0; t < count; ++t) {
      threads_[t] = {.index = {t % dim.x, t / dim.x % dim.y, t / dim.x / dim.y}};
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

  void release() {
    bool released = false;
    for (auto warp = threads_.begin(); warp != threads_.end(); warp += kWarp) {
      const auto at_barrier = [](const Thread& t) { return t.state == State::kAtWarpBarrier; };
      if (!std::all_of(warp, warp + kWarp, at_barrier)) continue;
      for (auto t = warp; t != warp + kWarp; ++t) t->state = State::kReady;
      released = true;
    }
    if (released) return;
    for (Thread& thread : threads_) {
      if (thread.state != State::kAtBlockBarrier) {
        fail("threads of a block, or lanes of a warp, do not meet at the same barrier");
      }
      thread.state = State::kReady;
    }
  }

  void go_on_with(unsigned other, Stack& running) {
    Thread& thread = threads_[current_ = other];
    threadIdx = thread.index;
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
  unsigned current_ = 0, ended_ = 0;
};

// The stacks that one host thread's kernels run on.
struct Machine {
  Block block;
  Order order = Order::kForward;
  std::mt19937 random{1};
  void* dynamic_shared = nullptr;
};

Machine& machine() {
  static thread_local Machine own;
  return own;
}

void Block::enter() noexcept {
  Stack::begun();
  Block& block = machine().block;
  for (;;) {
    (*block.thread_)();
    block.finish();
  }
}

}  // namespace

void set_order(Order order) {
  machine().order = order;
}

void run_grid(Index grid, Index block, std::size_t dynamic_shared_bytes,
              const std::function<void()>& thread) {
  Machine& m = machine();
  gridDim = grid;
  blockDim = block;
  const std::uint64_t blocks = std::uint64_t{grid.x} * grid.y * grid.z;
  std::vector<std::uint64_t> turn(blocks);
  std::iota(turn.begin(), turn.end(), std::uint64_t{0});
  if (m.order == Order::kReverse) std::reverse(turn.begin(), turn.end());
  if (m.order == Order::kShuffled) std::shuffle(turn.begin(), turn.end(), m.random);
  for (const std::uint64_t b : turn) {
    blockIdx = {static_cast<unsigned>(b % grid.x), static_cast<unsigned>(b / grid.x % grid.y),
                static_cast<unsigned>(b / grid.x / grid.y)};
    void* shared = dynamic_shared_bytes == 0 ? nullptr : std::malloc(dynamic_shared_bytes);
    if (shared != nullptr) std::memset(shared, 0xff, dynamic_shared_bytes);
    m.dynamic_shared = shared;
    m.block.run(block, thread, m.random, m.order);
    std::free(shared);
  }
}

void block_barrier() {
  machine().block.stop(State::kAtBlockBarrier);
}
void warp_barrier() {
  machine().block.stop(State::kAtWarpBarrier);
}
std::uint64_t exchange(std::uint64_t bits, int lane_mask) {
  const unsigned lane = machine().block.lane();
  const LaneBoard* warp = exchange({.word = bits});
  return warp[lane ^ static_cast<unsigned>(lane_mask)].word;
}
LaneBoard* exchange(const LaneBoard& own) {
  return machine().block.exchange(own);
}
void* dynamic_shared() {
  return machine().dynamic_shared;
}

}  // namespace emulation
