// Runs CUDA kernels on the host.
//
// [Note: emulated blocks] Blocks run one after the other. The threads of a block share the calling thread and
// switch only at barriers and shuffles. That reveals logic errors and, with sanitizers, accesses out of
// bounds. The emulation also checks more:
//  * A barrier that only part of the threads reaches is an error. So is a shuffle in a warp with ended lanes.
//  * Dynamic shared memory starts as NaN and has its exact size.
//  * A launch beyond a card's limits is rejected.
//  * The order of threads and blocks can be changed, which changes results that depend on a missing barrier.
// The blocks of a cluster run together, like threads of one block, and may use only dynamic shared memory.
// Reading that of a block that has ended is an error. Races between blocks, memory ordering and speed are not
// emulated.
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

/// Sets the order in which threads of a block, and blocks, run in later kernels of the calling thread.
void set_order(Order order);
/// Sets the size of device memory, for the whole process. Larger allocations fail.
void set_memory_limit(std::size_t bytes);
/// Sets the number of devices that cudaGetDeviceCount reports.
void set_device_count(int count);
/// Bytes from cudaMalloc that have not been freed.
std::size_t allocated_bytes();
/// Sets the CUDA version that the driver supports, as 1000 major + 10 minor; 0 means no driver. A driver
/// older than the toolkit finds no devices.
void set_driver_version(int version);

/// Makes queries report every event as pending, for the whole process.
void set_events_pending(bool pending);
/// [Note: held streams] The work of a held stream runs only when something waits for it: the host, or another
/// stream that needs it. So work without the necessary event runs too early or too late, and its result
/// reveals that. `stream` is a cudaStream_t.
void hold(void* stream, bool on);
/// Holds streams that the calling thread makes from now on.
void hold_new_streams(bool on);

/// The card's clock, for the whole process. Only products take time.
std::atomic<double>& clock_us();

/// Number of algorithms that cuBLASLt proposes for a product, in order. There is one more if it may add parts
/// of a sum in place.
inline constexpr int kProposedProducts = 3, kInPlaceProduct = 3;
/// The algorithms, indexed by proposal, for the whole process.
struct ProductAlgorithms {
  std::function<double(int)> us;            // time of one run on the card; empty: 200
  std::array<std::atomic<long>, 4> runs{};  // number enqueued
  bool in_place_repeats = true;             // false: each run of kInPlaceProduct has different bits
};
ProductAlgorithms& product_algorithms();
/// The number of first proposals that are refused when they run: for plain products, and for products with an
/// addend or an epilogue. For the whole process.
struct ProductRefusals {
  int plain = 0, fused = 0;
  int count = 0;  // refusals since the start
};
ProductRefusals& product_refusals();

/// [Note: device memory is out of reach] The host cannot access device memory. With protection keys, the
/// processor kills a program that accesses cudaMalloc's memory outside kernels, copies and library calls, as
/// with a real card. Other processors allow it.
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;

 private:
  unsigned before_ = 0;  // the thread's rights
};
/// True if this processor has protection keys.
bool guards_device_memory();

/// The runtime calls of a thread.
struct Counts {
  long launches = 0;     // kernels, products included, enqueued or recorded
  long clusters = 0;     // launches of kernels in clusters
  long graphs = 0;       // graphs launched
  long waits = 0;        // host waits for a stream, an event or the device
  long event_waits = 0;  // host waits for an event only, not for later work
  long uploads = 0;      // completed copies to the device
  long choices = 0;      // algorithm choices for products
  long pinned = 0;       // allocations of page-locked memory
  long mallocs = 0;      // cudaMalloc and cudaFree calls; both may wait for the device
  long frees = 0;        // cudaFree calls
};
Counts& counts();

/// Compute capability of the cards; initially 90.
int& compute_capability();

/// `cluster` neighbouring blocks along x form a cluster.
void run_grid(Index grid, Index block, unsigned cluster, std::size_t dynamic_shared_bytes,
              const std::function<void()>& thread);

// For the running thread of a block.
void block_barrier();
void cluster_barrier();
void warp_barrier();
/// Publishes `bits` to the warp and returns the bits of lane (own ^ lane_mask).
std::uint64_t exchange(std::uint64_t bits, int lane_mask);
void* dynamic_shared();
/// The address in the dynamic shared memory of block `rank` of the cluster that corresponds to `own`.
const void* cluster_shared(const void* own, unsigned rank);

}  // namespace emulation
