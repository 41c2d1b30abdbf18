// Runs CUDA kernels on the host.
//
// [Note: emulated blocks] Blocks run one after the other; the threads of a block share the calling thread and
// change places at barriers and shuffles only. That shows logic errors and, with the
// sanitizers, accesses out of bounds. What it says beyond: a barrier that part of the threads has passed or
// left is an error, as is a shuffle in a warp with lanes that have ended; dynamic shared memory starts as NaN
// and has its exact size; a launch beyond a card's limits is refused; and the order of threads and blocks can
// be changed, so that results which depend on a missing barrier change too. It does not show races between
// blocks, memory ordering or speed.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace emulation {

struct Index {
  unsigned x, y, z;
};

enum class Order { kForward, kReverse, kShuffled };

/// The order in which threads of a block, and blocks, run; of the calling thread's kernels from now on.
void set_order(Order order);
/// Device memory beyond this fails to allocate; of the whole process.
void set_memory_limit(std::size_t bytes);
/// Devices that cudaGetDeviceCount reports.
void set_device_count(int count);
/// Bytes from cudaMalloc that are not freed.
std::size_t allocated_bytes();
/// CUDA version that the driver supports, as 1000 major + 10 minor; 0: none is loaded. A driver older than
/// the toolkit finds no devices.
void set_driver_version(int version);

/// Whether events have not passed yet when they are asked; of the whole process.
void set_events_pending(bool pending);
/// [Note: held streams] While a stream is held, its work is done when something waits for it: the host, or
/// another stream that is to go on. So what lacks an event runs too early or too late, and its result shows
/// it. `stream` is a cudaStream_t.
void hold(void* stream, bool on);
/// Whether streams that are made from now on are held; of the calling thread.
void hold_new_streams(bool on);

/// The time on the card: of the whole process. Only products take any.
std::atomic<double>& clock_us();

/// Algorithms that cuBLASLt proposes for a product, in this order; and one more where it may add parts of a
/// sum in place.
inline constexpr int kProposedProducts = 3, kInPlaceProduct = 3;
/// The algorithms, by their place in the proposals. Of the whole process.
struct ProductAlgorithms {
  std::function<double(int)> us;            // of one run on the card; empty: 200
  std::array<std::atomic<long>, 4> runs{};  // that were enqueued
  bool in_place_repeats = true;             // false: each run of kInPlaceProduct has other bits
};
ProductAlgorithms& product_algorithms();
/// The first so many of them are refused when they run: of products alone, and of those with an addend or an
/// epilogue. Of the whole process.
struct ProductRefusals {
  int plain = 0, fused = 0;
  int count = 0;  // of the refusals since the start
};
ProductRefusals& product_refusals();

/// [Note: device memory is out of reach] Of the host: a processor with protection keys ends a program that
/// reads or writes cudaMalloc's memory elsewhere than in kernels, copies and library calls, as a card's
/// memory would. Other processors let it pass.
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;

 private:
  unsigned before_ = 0;  // the thread's rights
};
/// Whether this processor has such keys.
bool guards_device_memory();

/// The calls that a thread has made to the runtime.
struct Counts {
  long launches = 0;     // of kernels, products included, enqueued or recorded
  long graphs = 0;       // launched
  long waits = 0;        // of the host, for a stream, an event or the device
  long event_waits = 0;  // of these, for an event: not for what was enqueued behind it
  long uploads = 0;      // copies to the device that have been done
  long choices = 0;      // of an algorithm for a product
  long pinned = 0;       // pieces of page-locked memory made
  long mallocs = 0;      // of device memory, and its frees: both may wait for the device
  long frees = 0;        // alone
};
Counts& counts();

/// Of the cards: 90 at first.
int& compute_capability();

void run_grid(Index grid, Index block, std::size_t dynamic_shared_bytes, const std::function<void()>& thread);

// For the running thread of a block.
void block_barrier();
void warp_barrier();
/// Leaves `bits` for the warp and returns those of lane (own ^ lane_mask).
std::uint64_t exchange(std::uint64_t bits, int lane_mask);
void* dynamic_shared();

}  // namespace emulation
