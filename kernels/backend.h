// The operator table: everything an op of runtime/ops may ask of a device. A backend is a struct of functions
// and a table of kernels, one for each struct of arguments in the lists of backend_*ops.h; it fills both in
// one place. No autograd here, no shapes to infer: callers (runtime/ops, runtime/optim) have checked shapes
// and dtypes, kernels compute over views.
//
// [Note: kernel contracts]
//  * Views are contiguous row-major. `const` views are never written. Outputs may be uninitialised and are
//  fully
//    written, unless a GradientMode says otherwise. In-place aliasing is allowed only where an args struct
//    says so.
//  * Work is enqueued on `exec.stream` (a CPU backend has finished when it returns).
//  * Results are bit-identical for any number of threads: what is summed is cut by shape alone, and no sum's
//    order depends on who computes it. No floating-point atomics.
//  * dtypes: T is fp32, fp16 or bf16, one for all tensors of a call that the args do not fix to fp32 or
//  int32:
//    activations, their gradients, working copies of parameters. Parameter gradients, statistics and losses
//    are fp32; d of a matmul may be fp32 beside 16-bit a and b (weight gradients). 16-bit results are rounded
//    once, to nearest, ties to even, when they are stored; what overflows becomes infinite.
//  * Matmul, convolution and attention accumulate in fp32; norms, softmax, losses and reductions compute in
//  fp32.
//  * Error(kUnsupported) names op and device where the backend lacks the op, and op, device and dtype where
//  its
//    kernel lacks the dtype.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/backend_chunk_ops.h"
#include "kernels/backend_image_ops.h"
#include "kernels/backend_ops.h"
#include "kernels/backend_step_ops.h"

namespace trireme {

class ProductChoices;

/// The devices of a backend on this machine, for people and for choosing one.
struct DeviceReport {
  struct Card {
    std::string name;          // "NVIDIA H200"
    std::string pci_bus_id;    // "0000:3B:00.0", or empty
    std::string architecture;  // "sm_90"
    std::int64_t memory_bytes = 0;
    int num_multiprocessors = 0;
  };
  std::vector<Card> devices;                                  // by Device::index
  std::string problem;                                        // why there is none; else empty
  std::vector<std::pair<std::string, std::string>> versions;  // of driver and libraries, by name
  std::vector<std::string> links;                             // "0 - 1: 18 NVLinks"
};

/// Host memory that copies from a device land in while the host goes on.
class HostCopy {
 public:
  virtual ~HostCopy() = default;
  /// Enqueues a copy of `src`, of at most as many bytes as this was made for, on exec.stream. The last one
  /// must have been waited for.
  virtual void start(const KernelContext& exec, ConstTensorView src) = 0;
  /// The bytes, until the next start(). Waits for the copy and what was enqueued before it, not for what came
  /// after.
  virtual const void* wait() = 0;
};

using AllOps = decltype(joined(FeatureOps{}, ChunkOps{}, ImageOps{}, StepOps{}));

[[noreturn]] void throw_missing_op(const char* device, const char* op);

struct Backend {
  const char* name = "";
  /// Null on backends whose device is the machine itself. Throws nothing but std::bad_alloc.
  DeviceReport (*examine_devices)() = nullptr;
  /// The bytes of a device's memory that nobody holds. Null on backends whose device is the machine itself.
  std::int64_t (*free_bytes)(Device device) = nullptr;
  /// The facts that decide the last bits of results on this machine, by name: {"instruction set":
  /// "x86_64_v4"}. Null where examine_devices says it all.
  std::map<std::string, std::string> (*arithmetic)() = nullptr;

  // Memory and transfers. A source for one rank; host <-> device copies are ordered on exec.stream,
  // copy_to_host returns when the bytes are on the host, synchronize when all enqueued work is done.
  std::unique_ptr<MemorySource> (*make_memory_source)(Device device) = nullptr;
  /// The compute stream of one rank, with what libraries keep for it: what KernelContext::stream points to.
  /// On cpu that is what is kept alone, and calls do without it. Null on backends with neither.
  std::shared_ptr<void> (*make_stream)(Device device, std::shared_ptr<Allocator> allocator) = nullptr;
  /// Null on backends without streams, whose copies are done when they return.
  std::unique_ptr<HostCopy> (*make_host_copy)(const KernelContext& exec, std::size_t bytes) = nullptr;
  /// exec.stream as the vendor's libraries know it (cudaStream_t), for communicators.
  void* (*native_stream)(const KernelContext& exec) = nullptr;
  /// Makes all that copy_from_host() of up to `bytes` bytes keeps for itself, of which it else makes more as
  /// it needs it. Null on backends that keep nothing.
  void (*prepare_uploads)(const KernelContext& exec, std::size_t bytes) = nullptr;
  void (*copy_from_host)(const KernelContext& exec, TensorView dst, const void* src) = nullptr;
  void (*copy_to_host)(const KernelContext& exec, void* dst, ConstTensorView src) = nullptr;
  void (*copy)(const KernelContext& exec, TensorView dst, ConstTensorView src) = nullptr;  // same dtype
  void (*fill_zero)(const KernelContext& exec, TensorView dst) = nullptr;
  void (*synchronize)(const KernelContext& exec) = nullptr;

  /// Measured choices among the algorithms of products, for what has not run on the stream yet: see
  /// [Note: measured products]. As long-lived as the stream. Null on backends whose libraries offer none.
  ProductChoices& (*product_choices)(const KernelContext& exec) = nullptr;

  // Recorded work, replayed: see parallel/run/step_graph.h. Null on backends without it. Between
  // begin_capture and end_capture what is enqueued on exec.stream is recorded and not run; waiting for the
  // stream is an error then. A graph reads and writes the addresses that it was recorded with.
  void (*begin_capture)(const KernelContext& exec) = nullptr;
  std::shared_ptr<void> (*end_capture)(const KernelContext& exec) = nullptr;
  void (*launch_graph)(const KernelContext& exec, const std::shared_ptr<void>& graph) = nullptr;

  /// Called once on the thread that becomes a rank (thread pools, current device).
  void (*bind_thread)(const KernelContext& exec) = nullptr;

  OpTable<AllOps> ops;

  // A backend's capabilities, told by the functions that it has; traits() in runtime/base/device.h has the
  // rest.
  constexpr bool is_asynchronous() const { return native_stream != nullptr; }
  constexpr bool records_graphs() const { return begin_capture != nullptr; }

  /// Throws Error(kUnsupported) naming op and device where the table has no kernel for `args`.
  template <class Args>
  void run(const KernelContext& exec, const Args& args) const {
    const Kernel<Args> kernel = ops.get<Args>();
    if (kernel == nullptr) throw_missing_op(name, Args::kName);
    kernel(exec, args);
  }
};

/// The table of a device type. Throws Error(kUnsupported) for one that this build lacks.
const Backend& backend_for(DeviceType type);

// Each defined in its own folder.
const Backend& cpu_backend();
const Backend& meta_backend();
/// The same, counting as MemoryCategory::kWorkspace what is known beforehand of the libraries of a device:
/// attention's on cuda (attention_workspace.h).
const Backend& meta_backend_for(DeviceType type);
const Backend& cuda_backend();  // in builds with TRIREME_CUDA

}  // namespace trireme
