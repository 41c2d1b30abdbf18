// The operator table: everything an op of runtime/ops may ask of a device, as one struct of function pointers
// that a backend fills in one place. No autograd here, no shapes to infer: callers (runtime/ops,
// runtime/optim) have checked shapes and dtypes, kernels compute over views.
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
//  * A null entry means the backend lacks the op; an entry throws Error(kUnsupported) naming op, device and
//  dtype
//    for a dtype it lacks.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/backend_image_ops.h"
#include "kernels/backend_ops.h"
#include "kernels/backend_step_ops.h"
#include "kernels/backend_types.h"

namespace trireme {

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

struct Backend {
  const char* name = "";
  /// Null on backends whose device is the machine itself. Throws nothing but std::bad_alloc.
  DeviceReport (*examine_devices)() = nullptr;
  /// What decides the last bits of results on this machine, by name: {"instruction set": "x86_64_v4"}. Null
  /// where examine_devices says it all.
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
  void (*copy_from_host)(const KernelContext& exec, TensorView dst, const void* src) = nullptr;
  void (*copy_to_host)(const KernelContext& exec, void* dst, ConstTensorView src) = nullptr;
  void (*copy)(const KernelContext& exec, TensorView dst, ConstTensorView src) = nullptr;  // same dtype
  void (*fill_zero)(const KernelContext& exec, TensorView dst) = nullptr;
  void (*synchronize)(const KernelContext& exec) = nullptr;

  // Recorded work, played again: see parallel/run/step_graph.h. Null on backends without it. Between
  // begin_capture and end_capture what is enqueued on exec.stream is recorded and not run; waiting for the
  // stream is an error then. A graph reads and writes the addresses that it was recorded with.
  void (*begin_capture)(const KernelContext& exec) = nullptr;
  std::shared_ptr<void> (*end_capture)(const KernelContext& exec) = nullptr;
  void (*launch_graph)(const KernelContext& exec, const std::shared_ptr<void>& graph) = nullptr;

  /// Called once on the thread that becomes a rank (thread pools, current device).
  void (*bind_thread)(const KernelContext& exec) = nullptr;

  void (*matmul)(const KernelContext&, const MatmulArgs&) = nullptr;
  void (*column_sum)(const KernelContext&, const ColumnSumArgs&) = nullptr;
  void (*activation_bwd)(const KernelContext&, const ActivationBwdArgs&) = nullptr;
  void (*layer_norm_fwd)(const KernelContext&, const LayerNormFwdArgs&) = nullptr;
  void (*layer_norm_bwd)(const KernelContext&, const LayerNormBwdArgs&) = nullptr;
  void (*attention_fwd)(const KernelContext&, const AttentionFwdArgs&) = nullptr;
  void (*attention_bwd)(const KernelContext&, const AttentionBwdArgs&) = nullptr;
  void (*embedding_fwd)(const KernelContext&, const EmbeddingFwdArgs&) = nullptr;
  void (*embedding_bwd)(const KernelContext&, const EmbeddingBwdArgs&) = nullptr;
  void (*dropout)(const KernelContext&, const DropoutArgs&) = nullptr;
  void (*softmax_cross_entropy)(const KernelContext&, const SoftmaxCrossEntropyArgs&) = nullptr;
  void (*conv2d_fwd)(const KernelContext&, const Conv2dFwdArgs&) = nullptr;
  void (*conv2d_bwd_data)(const KernelContext&, const Conv2dBwdDataArgs&) = nullptr;
  void (*conv2d_bwd_weight)(const KernelContext&, const Conv2dBwdWeightArgs&) = nullptr;
  void (*batch_norm_fwd)(const KernelContext&, const BatchNormFwdArgs&) = nullptr;
  void (*batch_norm_infer)(const KernelContext&, const BatchNormInferArgs&) = nullptr;
  void (*batch_norm_bwd)(const KernelContext&, const BatchNormBwdArgs&) = nullptr;
  void (*relu)(const KernelContext&, const ReluArgs&) = nullptr;
  void (*relu_bwd)(const KernelContext&, const ReluBwdArgs&) = nullptr;
  void (*max_pool_fwd)(const KernelContext&, const MaxPoolFwdArgs&) = nullptr;
  void (*max_pool_bwd)(const KernelContext&, const MaxPoolBwdArgs&) = nullptr;
  void (*avg_pool_fwd)(const KernelContext&, const AvgPoolFwdArgs&) = nullptr;
  void (*avg_pool_bwd)(const KernelContext&, const AvgPoolBwdArgs&) = nullptr;
  void (*move_average)(const KernelContext&, const MoveAverageArgs&) = nullptr;
  void (*add)(const KernelContext&, const AddArgs&) = nullptr;
  void (*cast)(const KernelContext&, const CastArgs&) = nullptr;
  void (*scale)(const KernelContext&, const ScaleArgs&) = nullptr;
  void (*squared_norm_blocks)(const KernelContext&, const SquaredNormBlocksArgs&) = nullptr;
  void (*clip_coefficient)(const KernelContext&, const ClipCoefficientArgs&) = nullptr;
  void (*update_loss_scale)(const KernelContext&, const UpdateLossScaleArgs&) = nullptr;
  void (*adamw)(const KernelContext&, const AdamWArgs&) = nullptr;
  void (*sgd)(const KernelContext&, const SgdArgs&) = nullptr;
};

[[noreturn]] void throw_missing_entry(const Backend& backend, const char* op);

/// An entry of `backend`'s table, for the ops that not every backend has: throws Error(kUnsupported) naming
/// op and device where it is null.
template <class Entry>
Entry required(const Backend& backend, Entry Backend::*entry, const char* op) {
  if (backend.*entry == nullptr) throw_missing_entry(backend, op);
  return backend.*entry;
}

/// The table of a device type. Throws Error(kUnsupported) for one that this build lacks.
const Backend& backend_for(DeviceType type);

// Each defined in its own folder.
const Backend& cpu_backend();
const Backend& meta_backend();
const Backend& cuda_backend();  // in builds with TRIREME_CUDA

}  // namespace trireme
