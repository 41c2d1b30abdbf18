// cuDNN's graph API: tensors and operations put together, turned into a plan, run. Only what attention and
// convolution need of it.
#pragma once

#include <cudnn_graph.h>

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/base/error.h"

namespace trireme::cuda {

/// True for what another engine or graph may yet do: a problem that is not supported. All other failures, of
/// memory or the driver, say nothing about the problem: who took another engine for them would take one that
/// other ranks do not.
bool is_refusal(cudnnStatus_t status);

/// Throws Error with cuDNN's own last message unless `status` is success: kUnsupported for a refusal,
/// kOutOfMemory for a lack of memory, else kRuntime.
void check_cudnn(cudnnStatus_t status, const char* call);

/// An owned backend descriptor.
class CudnnDescriptor {
 public:
  explicit CudnnDescriptor(cudnnBackendDescriptorType_t type) {
    check_cudnn(cudnnBackendCreateDescriptor(type, &descriptor_), "cudnnBackendCreateDescriptor");
  }
  ~CudnnDescriptor() {
    if (descriptor_ != nullptr) (void)cudnnBackendDestroyDescriptor(descriptor_);
  }
  CudnnDescriptor(CudnnDescriptor&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, nullptr)) {}
  CudnnDescriptor& operator=(CudnnDescriptor&&) = delete;

  cudnnBackendDescriptor_t get() const { return descriptor_; }

  template <class Value>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const Value& value) {
    set_array(name, type, 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value) {
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, value.descriptor_);
  }
  void set_array(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
                 const void* values) {
    check_cudnn(cudnnBackendSetAttribute(descriptor_, name, type, count, values), "cudnnBackendSetAttribute");
  }
  void finalize() { check_cudnn(cudnnBackendFinalize(descriptor_), "cudnnBackendFinalize"); }
  /// False when cuDNN refuses, or cannot compile this engine's kernels, which is the same on every rank;
  /// throws as check_cudnn() at every other failure.
  bool try_finalize() {
    const cudnnStatus_t status = cudnnBackendFinalize(descriptor_);
    if (is_refusal(status) || status == CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED) return false;
    check_cudnn(status, "cudnnBackendFinalize");
    return true;
  }

 private:
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

/// A graph that cuDNN has turned into kernels.
class CudnnPlan {
 public:
  /// `config` is what the plan has been made of, and stays as long.
  CudnnPlan(CudnnDescriptor plan, CudnnDescriptor config, std::size_t workspace_bytes, std::size_t place)
      : config_(std::move(config)),
        plan_(std::move(plan)),
        workspace_bytes_(workspace_bytes),
        place_(place) {}

  std::size_t workspace_bytes() const { return workspace_bytes_; }
  /// Among the proposals.
  std::size_t place() const { return place_; }
  /// pointers[i] is the memory of the tensor with id ids[i]: on the card, or on the host for scalars. False
  /// when cuDNN refuses to run the plan after all; nothing is enqueued then.
  bool run(cudnnHandle_t handle, const std::vector<std::int64_t>& ids, const std::vector<void*>& pointers,
           void* workspace) const;

 private:
  CudnnDescriptor config_, plan_;
  std::size_t workspace_bytes_, place_;
};

/// The choice among the engines that cuDNN proposes.
struct EngineLimits {
  std::vector<cudnnBackendNumericalNote_t> refused;  // engines with one of these notes are not
  std::vector<cudnnBackendNumericalNote_t> wanted;   // nor those with none of these; empty: all are
  std::size_t most_workspace_bytes = std::numeric_limits<std::size_t>::max();
  bool fallback = false;  // whether the ones behind the proposals are requested too: slower, for more shapes
  std::size_t first = 0;  // proposals before this one are not taken
};

enum class ConvolutionKind : std::uint8_t { kFwd, kBwdData, kBwdWeight };

class CudnnGraph {
 public:
  using Extents = std::array<std::int64_t, 4>;
  struct Tensor {
    std::size_t index = 0;  // in tensors_
    Extents dims{};
  };

  /// Memory of the caller, found by `id` (1 and up) when the plan runs.
  Tensor input_or_output(std::int64_t id, cudnnDataType_t type, const Extents& dims, const Extents& strides);
  /// One fp32 value on the host.
  Tensor scalar(std::int64_t id);
  /// fp32, inside of the plan.
  Tensor intermediate(const Extents& dims, const Extents& strides);

  // Operations. Results live inside of the plan unless `to` says where.
  Tensor matmul(const Tensor& a, const Tensor& b, std::optional<Tensor> to = {});
  Tensor pointwise(cudnnPointwiseMode_t mode, const Tensor& x, const std::optional<Tensor>& b = {},
                   std::optional<Tensor> to = {}, cudnnDataType_t type = CUDNN_DATA_FLOAT);
  /// keep[i] ? x : otherwise.
  Tensor select(const Tensor& x, const Tensor& otherwise, const Tensor& keep);
  /// The element's index along `dim`, as int32.
  Tensor index_along(const Tensor& like, std::int64_t dim);
  /// x >= y, as booleans.
  Tensor is_at_least(const Tensor& x, const Tensor& y);
  /// Over the last dim.
  Tensor reduce(cudnnReduceTensorOp_t op, const Tensor& x);
  /// Images x and y, each [B, channels, height, width], and the weight [O, C / groups, R, S], in any strides:
  /// y from the others, or the gradient of x or of the weight from those of the others.
  void convolution(ConvolutionKind kind, std::int64_t stride, std::int64_t padding, const Tensor& x,
                   const Tensor& weight, const Tensor& y);
  /// The last two dims exchanged: a view with `strides`.
  Tensor transpose(const Tensor& x, const Extents& strides, cudnnDataType_t type);

  /// The first plan within the limits that cuDNN proposes and can build. Empty when there is none. Throws
  /// when the graph itself is refused for another reason.
  std::optional<CudnnPlan> build(cudnnHandle_t handle, const EngineLimits& limits) const;

 private:
  Tensor add_tensor(std::int64_t id, cudnnDataType_t type, const Extents& dims, const Extents& strides,
                    bool is_virtual, bool by_value);
  Tensor intermediate(const Extents& dims, cudnnDataType_t type = CUDNN_DATA_FLOAT);
  void add_pointwise(cudnnPointwiseMode_t mode, cudnnDataType_t compute, std::optional<std::int64_t> axis,
                     const Tensor& x, const std::optional<Tensor>& b, const std::optional<Tensor>& t,
                     const Tensor& y);
  const CudnnDescriptor& descriptor(const Tensor& tensor) const { return tensors_[tensor.index]; }

  std::vector<CudnnDescriptor> tensors_;
  std::vector<CudnnDescriptor> parts_;  // what operations are described by
  std::vector<CudnnDescriptor> operations_;
  std::int64_t next_id_ = 1000;  // of intermediates
};

}  // namespace trireme::cuda
