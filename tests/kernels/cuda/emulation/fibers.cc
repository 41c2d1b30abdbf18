// The threads of an emulated block.
#include <cuda_runtime.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "tests/kernels/cuda/emulation/emulation.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

constinit thread_local emulation::Index threadIdx{}, blockIdx{}, blockDim{}, gridDim{};

namespace emulation {
namespace {

constexpr int kWarp = 32;
constexpr std::size_t kStackBytes = 256 * 1024;

enum class State { kReady, kAtBlockBarrier, kAtWarpBarrier, kEnded };

struct Fiber {
  ucontext_t context{};
  Index index{};
  State state = State::kReady;
  int phase = 0;  // which of the warp's two boards the next exchange uses
};

class Block {
 public:
  void run(Index dim, const std::function<void()>& thread, std::mt19937& random, Order order) {
    dim_ = dim;
    thread_ = &thread;
    const unsigned count = dim.x * dim.y * dim.z;
    prepare(count);
    std::vector<unsigned> turn(count);
    std::iota(turn.begin(), turn.end(), 0u);
    if (order == Order::kReverse) std::reverse(turn.begin(), turn.end());
    while (ended_ < count) {
      if (order == Order::kShuffled) std::shuffle(turn.begin(), turn.end(), random);
      for (const unsigned f : turn) {
        if (fibers_[f].state == State::kReady) resume(f);
      }
      if (ended_ < count) release(count);
    }
  }

  Fiber& current() { return fibers_[current_]; }

  void stop(State state) {
    fibers_[current_].state = state;
    switch_to_scheduler(false);
  }

  std::uint64_t exchange(std::uint64_t bits, int lane_mask) {
    const unsigned lane = current_ % kWarp, warp = current_ / kWarp;
    const int phase = std::exchange(current().phase, current().phase ^ 1);
    boards_[phase][current_] = bits;
    stop(State::kAtWarpBarrier);
    return boards_[phase][warp * kWarp + (lane ^ static_cast<unsigned>(lane_mask))];
  }

 private:
  static void enter() noexcept;

  void prepare(unsigned count) {
    if (count % kWarp != 0) fail("a block that is no whole number of warps");
    if (fibers_.size() < count) {
      fibers_.resize(count);
      while (stacks_.size() < count) {
        void* stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (stack == MAP_FAILED) fail("no memory for the stack of a thread");
        stacks_.push_back(stack);
      }
      for (auto& board : boards_) board.resize(count);
    }
    ended_ = 0;
    for (unsigned f = 0; f < count; ++f) {
      Fiber& fiber = fibers_[f];
      fiber.index = {f % dim_.x, f / dim_.x % dim_.y, f / dim_.x / dim_.y};
      fiber.state = State::kReady;
      fiber.phase = 0;
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = stacks_[f];
      fiber.context.uc_stack.ss_size = kStackBytes;
      fiber.context.uc_link = nullptr;
      makecontext(&fiber.context, enter, 0);
    }
  }

  void resume(unsigned f) {
    current_ = f;
    threadIdx = fibers_[f].index;
#if defined(__SANITIZE_ADDRESS__)
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, stacks_[f], kStackBytes);
    swapcontext(&scheduler_, &fibers_[f].context);
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#else
    swapcontext(&scheduler_, &fibers_[f].context);
#endif
  }

  void switch_to_scheduler(bool ends) {
    Fiber& fiber = fibers_[current_];
#if defined(__SANITIZE_ADDRESS__)
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(ends ? nullptr : &fake, scheduler_stack_, scheduler_stack_bytes_);
    swapcontext(&fiber.context, &scheduler_);
    __sanitizer_finish_switch_fiber(fake, &scheduler_stack_, &scheduler_stack_bytes_);
#else
    (void)ends;
    swapcontext(&fiber.context, &scheduler_);
#endif
  }

  // Everybody has stopped: lets those go on who have all come.
  void release(unsigned count) {
    bool released = false;
    for (unsigned first = 0; first < count; first += kWarp) {
      const auto all = [&](State state) {
        return std::all_of(fibers_.begin() + first, fibers_.begin() + first + kWarp,
                           [&](const Fiber& f) { return f.state == state; });
      };
      if (!all(State::kAtWarpBarrier)) continue;
      for (unsigned f = first; f < first + kWarp; ++f) fibers_[f].state = State::kReady;
      released = true;
    }
    if (released) return;
    for (unsigned f = 0; f < count; ++f) {
      if (fibers_[f].state != State::kAtBlockBarrier) {
        fail("threads of a block, or lanes of a warp, do not meet at the same barrier");
      }
    }
    for (unsigned f = 0; f < count; ++f) fibers_[f].state = State::kReady;
  }

  [[noreturn]] static void fail(const char* message) {
    std::fprintf(stderr, "emulated kernel: %s\n", message);
    std::abort();
  }

  Index dim_{};
  const std::function<void()>* thread_ = nullptr;
  ucontext_t scheduler_{};
  std::vector<Fiber> fibers_;
  std::vector<void*> stacks_;
  std::vector<std::uint64_t> boards_[2];
  unsigned current_ = 0;
  unsigned ended_ = 0;
#if defined(__SANITIZE_ADDRESS__)
  const void* scheduler_stack_ = nullptr;
  std::size_t scheduler_stack_bytes_ = 0;
#endif

  friend struct Machine;
};

// What the kernels of one host thread run on.
struct Machine {
  Block block;
  Order order = Order::kForward;
  std::mt19937 random{1};
  void* dynamic_shared = nullptr;
  ~Machine() {
    for (void* stack : block.stacks_) munmap(stack, kStackBytes);
  }
};

Machine& machine() {
  static thread_local Machine own;
  return own;
}

void Block::enter() noexcept {
  Block& block = machine().block;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &block.scheduler_stack_, &block.scheduler_stack_bytes_);
#endif
  (*block.thread_)();
  block.fibers_[block.current_].state = State::kEnded;
  ++block.ended_;
  block.switch_to_scheduler(true);
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
  if (blocks == 0 || std::uint64_t{block.x} * block.y * block.z > 1024 || grid.y > 65535 || grid.z > 65535) {
    std::fprintf(stderr, "emulated kernel: a launch of %ux%ux%u blocks of %ux%ux%u threads is refused\n",
                 grid.x, grid.y, grid.z, block.x, block.y, block.z);
    std::abort();
  }
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
  return machine().block.exchange(bits, lane_mask);
}
void* dynamic_shared() {
  return machine().dynamic_shared;
}

}  // namespace emulation
