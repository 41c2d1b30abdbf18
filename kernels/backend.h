// The operator table: the interface between runtime/ops and a device. A backend is a struct of functions and
// a table of kernels, one kernel for each struct of arguments in the lists of backend_*ops.h. Each backend
// fills its table in one place. Kernels compute over views. Autograd, shape inference and the checks of
// shapes and dtypes are done by the callers (runtime/ops, runtime/optim).
//
// [Note: kernel contracts]
//  * Views are contiguous row-major, except where the args have a pitch. `const` views are never written.
//    Outputs may be uninitialised and are fully written, unless a GradientMode says otherwise. In-place
//    aliasing is allowed only where an args struct allows it.
//  * Work is enqueued on `exec.stream` (a CPU backend has finished when it returns).
//  * Results are bit-identical for any number of threads. Sums are split by shape alone, and their order does
//    not depend on which thread computes which piece. No floating-point atomics.
//  * T is fp32, fp16 or bf16. All tensors of a call have dtype T, unless the args fix them to fp32 or int32:
//    activations, their gradients, working copies of parameters. Parameter gradients, statistics and losses
//    are fp32. d of a matmul may be fp32 beside 16-bit a and b (weight gradients). 16-bit results are rounded
//    once, to nearest, ties to even, when they are stored. Values that overflow become infinite.
//  * Matmul, convolution and attention accumulate in fp32. Norms, softmax, losses and reductions compute in
//    fp32.
//  * Error(kUnsupported) names op and device where the backend lacks the op. It names op, device and dtype
//    where the kernel lacks the dtype.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/backend_chunk_ops.h"
#include "kernels/backend_detection_ops.h"
#include "kernels/backend_diffusion_ops.h"
#include "kernels/backend_image_ops.h"
#include "kernels/backend_ops.h"
#include "kernels/backend_recurrent_ops.h"
#include "kernels/backend_step_ops.h"

namespace trireme {

class ProductChoices;

/// The devices of a backend on this machine, for display and for device selection.
struct DeviceReport {
  struct Card {
    std::string name;          // "NVIDIA H200"
    std::string pci_bus_id;    // "0000:3B:00.0", or empty
    std::string architecture;  // "sm_90"
    std::int64_t memory_bytes = 0;
    int num_multiprocessors = 0;
  };
  std::vector<Card> devices;                                  // by Device::index
  std::string problem;                                        // why there is no device; else empty
  std::vector<std::pair<std::string, std::string>> versions;  // of driver and libraries, by name
  std::vector<std::string> links;                             // "0 - 1: 18 NVLinks"
};

/// A host buffer that receives copies from a device without blocking the host.
class HostCopy {
 public:
  virtual ~HostCopy() = default;
  /// Enqueues a copy of `src` on exec.stream. `src` has at most the bytes that this buffer was made for. The
  /// previous copy must have been waited for.
  virtual void start(const KernelContext& exec, ConstTensorView src) = 0;
  /// Waits for the copy and the work enqueued before it, but not for later work. The returned bytes stay
  /// valid until the next start().
  virtual const void* wait() = 0;
};

using AllOps = decltype(joined(FeatureOps{}, RecurrentOps{}, ChunkOps{}, ImageOps{}, DiffusionOps{},
                               DetectionOps{}, StepOps{}));

[[noreturn]] void throw_missing_op(const char* device, const char* op);

struct Backend {
  const char* name = "";
  /// Null on backends whose device is the host itself. Throws nothing but std::bad_alloc.
  DeviceReport (*examine_devices)() = nullptr;
  /// Free bytes of a device's memory. Null on backends whose device is the host itself.
  std::int64_t (*free_bytes)(Device device) = nullptr;
  /// Facts that decide the last bits of results on this machine, by name: {"instruction set": "x86_64_v4"}.
  /// Null where examine_devices reports all of them.
  std::map<std::string, std::string> (*arithmetic)() = nullptr;

  // Memory and transfers. A memory source serves one rank. Copies between host and device are ordered on
  // exec.stream. copy_to_host returns when the bytes are on the host; synchronize, when all enqueued work is
  // done.
  std::unique_ptr<MemorySource> (*make_memory_source)(Device device) = nullptr;
  /// The compute stream of one rank together with the state that libraries cache on it. KernelContext::stream
  /// points to it. On cpu it holds cached state only, and kernels run without it too. Null on backends with
  /// neither.
  std::shared_ptr<void> (*make_stream)(Device device, std::shared_ptr<Allocator> allocator) = nullptr;
  /// Null on backends without streams, whose copies finish before they return.
  std::unique_ptr<HostCopy> (*make_host_copy)(const KernelContext& exec, std::size_t bytes) = nullptr;
  /// exec.stream as the vendor's type (cudaStream_t), for communicators.
  void* (*native_stream)(const KernelContext& exec) = nullptr;
  /// Allocates the staging memory that copy_from_host() needs for up to `bytes` bytes. Without this call it
  /// is allocated on first use. Null on backends without staging memory.
  void (*prepare_uploads)(const KernelContext& exec, std::size_t bytes) = nullptr;
  void (*copy_from_host)(const KernelContext& exec, TensorView dst, const void* src) = nullptr;
  void (*copy_to_host)(const KernelContext& exec, void* dst, ConstTensorView src) = nullptr;
  void (*copy)(const KernelContext& exec, TensorView dst, ConstTensorView src) = nullptr;  // same dtype
  void (*fill_zero)(const KernelContext& exec, TensorView dst) = nullptr;
  void (*synchronize)(const KernelContext& exec) = nullptr;

  /// Measured choices among the library's algorithms for products that have not yet run on the stream: see
  /// [Note: measured products]. Lives as long as the stream. Null on backends whose libraries offer no
  /// choice.
  ProductChoices& (*product_choices)(const KernelContext& exec) = nullptr;

  // Recorded work, replayed: see parallel/run/step_graph.h. Null on backends without it. Between
  // begin_capture and end_capture, work on exec.stream is recorded but not run, and waiting for the stream is
  // an error. A graph reads and writes the addresses that it was recorded with.
  void (*begin_capture)(const KernelContext& exec) = nullptr;
  std::shared_ptr<void> (*end_capture)(const KernelContext& exec) = nullptr;
  void (*launch_graph)(const KernelContext& exec, const std::shared_ptr<void>& graph) = nullptr;

  /// Called once on each thread that becomes a rank (thread pools, current device).
  void (*bind_thread)(const KernelContext& exec) = nullptr;

  OpTable<AllOps> ops;

  /// Elements whose multiples the library multiplies fastest as distances between rows. Rows of logits are
  /// that far apart, so that a vocabulary of any size runs at full speed. 1: distances do not matter.
  std::int64_t logits_alignment = 1;

  // Capabilities, derived from the functions that a backend has. traits() in runtime/base/device.h has the
  // others.
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

/// The backend of a device type. Throws Error(kUnsupported) if this build lacks it.
const Backend& backend_for(DeviceType type);

// Each is defined in its own folder.
const Backend& cpu_backend();
const Backend& meta_backend();
/// The meta backend, which also counts as MemoryCategory::kWorkspace the workspace of the device's libraries
/// that is known in advance (product_workspace.h, attention_workspace.h).
const Backend& meta_backend_for(DeviceType type);
const Backend& cuda_backend();  // in builds with TRIREME_CUDA

}  // namespace trireme
