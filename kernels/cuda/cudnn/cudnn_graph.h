// cuDNN's graph API, limited to the parts that attention and convolution need: builds graphs of tensors and
// operations, makes plans from them, and runs plans.
#pragma once

#include <cudnn_graph.h>

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/backend_image_ops.h"
#include "runtime/base/dtype.h"
#include "runtime/base/error.h"

namespace trireme::cuda {

/// True for statuses that mean "not supported", where another engine or graph may still work. Other failures,
/// of memory or the driver, are independent of the problem. Switching engines because of them would make this
/// rank differ from the others.
bool is_refusal(cudnnStatus_t status);

/// Throws Error with cuDNN's last message unless `status` is success: kUnsupported for a refusal,
/// kOutOfMemory for lack of memory, else kRuntime.
void check_cudnn(cudnnStatus_t status, const char* call);

/// An owning backend descriptor.
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
  /// False when cuDNN refuses the descriptor or cannot compile this engine's kernels. Both are the same on
  /// every rank. Throws like check_cudnn() on any other failure.
  bool try_finalize() {
    const cudnnStatus_t status = cudnnBackendFinalize(descriptor_);
    if (is_refusal(status) || status == CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED) return false;
    check_cudnn(status, "cudnnBackendFinalize");
    return true;
  }

 private:
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

/// An execution plan of a graph.
class CudnnPlan {
 public:
  /// `config` is the engine configuration of the plan, and must live as long as the plan.
  CudnnPlan(CudnnDescriptor plan, CudnnDescriptor config, std::size_t workspace_bytes, std::size_t place)
      : config_(std::move(config)),
        plan_(std::move(plan)),
        workspace_bytes_(workspace_bytes),
        place_(place) {}

  std::size_t workspace_bytes() const { return workspace_bytes_; }
  /// Index among the proposals.
  std::size_t place() const { return place_; }
  /// pointers[i] is the memory of the tensor with id ids[i]: on the card, or on the host for scalars. Returns
  /// false if cuDNN refuses to run the plan; nothing is then enqueued.
  bool run(cudnnHandle_t handle, const std::vector<std::int64_t>& ids, const std::vector<void*>& pointers,
           void* workspace) const;

 private:
  CudnnDescriptor config_, plan_;
  std::size_t workspace_bytes_, place_;
};

/// Limits on the engines that may be chosen from cuDNN's proposals.
struct EngineLimits {
  std::vector<cudnnBackendNumericalNote_t> refused;  // excludes engines with one of these
  std::vector<cudnnBackendNumericalNote_t> wanted;   // excludes engines with none of these; empty: no limit
  std::size_t most_workspace_bytes = std::numeric_limits<std::size_t>::max();
  bool fallback = false;  // also request cuDNN's fallback engines, which are slower but support more shapes
  std::size_t first = 0;  // skip the proposals before this one
};

enum class ConvolutionKind : std::uint8_t { kFwd, kBwdData, kBwdWeight };

class CudnnGraph {
 public:
  using Extents = std::array<std::int64_t, 4>;
  struct Tensor {
    std::size_t index = 0;  // in tensors_
    Extents dims{};
  };

  /// Memory of the caller, identified by `id` (from 1 on) when the plan runs.
  Tensor input_or_output(std::int64_t id, cudnnDataType_t type, const Extents& dims, const Extents& strides);
  /// One fp32 value on the host.
  Tensor scalar(std::int64_t id);
  /// An fp32 tensor inside the plan.
  Tensor intermediate(const Extents& dims, const Extents& strides);
  /// The same, contiguous, of another type.
  Tensor intermediate(const Extents& dims, cudnnDataType_t type = CUDNN_DATA_FLOAT);

  // Operations. Results stay inside the plan unless `to` is given.
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
  Tensor reduce(cudnnReduceTensorOp_t op, const Tensor& x) {
    return reduce(op, x, intermediate({x.dims[0], x.dims[1], x.dims[2], 1}));
  }
  /// Over neighbours in each dim in which `to` is smaller, as many as the dims' ratio.
  Tensor reduce(cudnnReduceTensorOp_t op, const Tensor& x, const Tensor& to);
  /// Images x and y are each [B, channels, height, width], the weight is [O, C / groups, R, S], in any
  /// strides. Computes y, the gradient of x, or the gradient of the weight, from the other two.
  void convolution(ConvolutionKind kind, const ConvGeometry& geometry, const Tensor& x, const Tensor& weight,
                   const Tensor& y);
  /// Exchanges the last two dims: a view with `strides`.
  Tensor transpose(const Tensor& x, const Extents& strides, cudnnDataType_t type);

  /// The first plan proposed by cuDNN that is within the limits and can be built. Empty when there is none.
  /// Throws if the graph itself fails for another reason than a refusal.
  std::optional<CudnnPlan> build(cudnnHandle_t handle, const EngineLimits& limits) const;

 private:
  Tensor add_tensor(std::int64_t id, cudnnDataType_t type, const Extents& dims, const Extents& strides,
                    bool is_virtual, bool by_value);
  void add_pointwise(cudnnPointwiseMode_t mode, cudnnDataType_t compute, std::optional<std::int64_t> axis,
                     const Tensor& x, const std::optional<Tensor>& b, const std::optional<Tensor>& t,
                     const Tensor& y);
  const CudnnDescriptor& descriptor(const Tensor& tensor) const { return tensors_[tensor.index]; }

  std::vector<CudnnDescriptor> tensors_;
  std::vector<CudnnDescriptor> parts_;  // the descriptors that operations refer to
  std::vector<CudnnDescriptor> operations_;
  std::int64_t next_id_ = 1000;  // of intermediates
};

}  // namespace trireme::cuda
