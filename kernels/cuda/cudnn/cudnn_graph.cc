#include "kernels/cuda/cudnn/cudnn_graph.h"

#include <algorithm>

namespace trireme::cuda {
namespace {

constexpr std::int64_t kAlignment = 16;

CudnnGraph::Extents packed_strides(const CudnnGraph::Extents& dims) {
  return {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1};
}

// True if an engine has one of the numerical notes in `wanted`.
bool has_note(const CudnnDescriptor& config, const std::vector<cudnnBackendNumericalNote_t>& wanted) {
  const CudnnDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t raw = engine.get();
  std::int64_t count = 0;
  check_cudnn(cudnnBackendGetAttribute(config.get(), CUDNN_ATTR_ENGINECFG_ENGINE,
                                       CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &raw),
              "cudnnBackendGetAttribute of an engine");
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  check_cudnn(cudnnBackendGetAttribute(raw, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                       static_cast<std::int64_t>(notes.size()), &count, notes.data()),
              "cudnnBackendGetAttribute of an engine's notes");
  // A newer library may report more notes than this build has names for.
  count = std::min(count, static_cast<std::int64_t>(notes.size()));
  for (std::int64_t i = 0; i < count; ++i) {
    if (std::find(wanted.begin(), wanted.end(), notes[static_cast<std::size_t>(i)]) != wanted.end()) {
      return true;
    }
  }
  return false;
}

// The engines that the heuristics propose, best first. Empty when no engine fits the graph.
std::vector<CudnnDescriptor> propose(const CudnnDescriptor& graph, cudnnBackendHeurMode_t mode) {
  CudnnDescriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  if (!heuristics.try_finalize()) return {};
  std::int64_t count = 0;
  check_cudnn(cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                       CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr),
              "cudnnBackendGetAttribute of heuristics");
  std::vector<CudnnDescriptor> configs;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < count; ++i) {
    configs.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    raw.push_back(configs.back().get());
  }
  check_cudnn(cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                       CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, raw.data()),
              "cudnnBackendGetAttribute of heuristics");
  while (static_cast<std::int64_t>(configs.size()) > count) configs.pop_back();
  return configs;
}

// Attributes that newer versions deprecate and older versions need.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
constexpr cudnnBackendAttributeName_t kGraphHandle = CUDNN_ATTR_OPERATIONGRAPH_HANDLE;
constexpr cudnnBackendAttributeName_t kPlanHandle = CUDNN_ATTR_EXECUTION_PLAN_HANDLE;
#pragma GCC diagnostic pop

}  // namespace

// The thousands digit of a status is its category; the rest are details.
bool is_refusal(cudnnStatus_t status) {
  const int category = static_cast<int>(status) / 1000 * 1000;
  return category == CUDNN_STATUS_NOT_SUPPORTED || category == CUDNN_STATUS_BAD_PARAM;
}

void check_cudnn(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  char text[512] = "";
  cudnnGetLastErrorString(text, sizeof(text));
  const bool lacks_memory = status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
                            status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
  const ErrorCode code = is_refusal(status) ? ErrorCode::kUnsupported
                         : lacks_memory     ? ErrorCode::kOutOfMemory
                                            : ErrorCode::kRuntime;
  throw Error(code, "cuda: {} failed: {}: {}", call, cudnnGetErrorString(status), text);
}

bool CudnnPlan::run(cudnnHandle_t handle, const std::vector<std::int64_t>& ids,
                    const std::vector<void*>& pointers, void* workspace) const {
  CudnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set_array(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, static_cast<std::int64_t>(ids.size()),
                 ids.data());
  pack.set_array(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
                 static_cast<std::int64_t>(pointers.size()), pointers.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
  pack.finalize();
  const cudnnStatus_t status = cudnnBackendExecute(handle, plan_.get(), pack.get());
  if (is_refusal(status)) return false;
  check_cudnn(status, "cudnnBackendExecute");
  return true;
}

CudnnGraph::Tensor CudnnGraph::add_tensor(std::int64_t id, cudnnDataType_t type, const Extents& dims,
                                          const Extents& strides, bool is_virtual, bool by_value) {
  CudnnDescriptor& tensor = tensors_.emplace_back(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type);
  tensor.set_array(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims.data());
  tensor.set_array(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides.data());
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, kAlignment);
  tensor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, is_virtual);
  tensor.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, by_value);
  tensor.finalize();
  return {tensors_.size() - 1, dims};
}

CudnnGraph::Tensor CudnnGraph::input_or_output(std::int64_t id, cudnnDataType_t type, const Extents& dims,
                                               const Extents& strides) {
  return add_tensor(id, type, dims, strides, false, false);
}

CudnnGraph::Tensor CudnnGraph::scalar(std::int64_t id) {
  return add_tensor(id, CUDNN_DATA_FLOAT, {1, 1, 1, 1}, {1, 1, 1, 1}, false, true);
}

CudnnGraph::Tensor CudnnGraph::intermediate(const Extents& dims, const Extents& strides) {
  return add_tensor(next_id_++, CUDNN_DATA_FLOAT, dims, strides, true, false);
}

CudnnGraph::Tensor CudnnGraph::intermediate(const Extents& dims, cudnnDataType_t type) {
  return add_tensor(next_id_++, type, dims, packed_strides(dims), true, false);
}

CudnnGraph::Tensor CudnnGraph::matmul(const Tensor& a, const Tensor& b, std::optional<Tensor> to) {
  const Tensor c = to ? *to : intermediate({a.dims[0], a.dims[1], a.dims[2], b.dims[3]});
  CudnnDescriptor& part = parts_.emplace_back(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  part.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  part.finalize();
  CudnnDescriptor& operation = operations_.emplace_back(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, descriptor(a));
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, descriptor(b));
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, descriptor(c));
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, part);
  operation.finalize();
  return c;
}

void CudnnGraph::add_pointwise(cudnnPointwiseMode_t mode, cudnnDataType_t compute,
                               std::optional<std::int64_t> axis, const Tensor& x,
                               const std::optional<Tensor>& b, const std::optional<Tensor>& t,
                               const Tensor& y) {
  CudnnDescriptor& part = parts_.emplace_back(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  part.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
  part.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, compute);
  if (axis) part.set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, *axis);
  part.finalize();
  CudnnDescriptor& operation = operations_.emplace_back(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, part);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, descriptor(x));
  if (b) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, descriptor(*b));
  if (t) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, descriptor(*t));
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, descriptor(y));
  operation.finalize();
}

CudnnGraph::Tensor CudnnGraph::pointwise(cudnnPointwiseMode_t mode, const Tensor& x,
                                         const std::optional<Tensor>& b, std::optional<Tensor> to,
                                         cudnnDataType_t type) {
  const Tensor y = to ? *to : intermediate(x.dims, type);
  add_pointwise(mode, CUDNN_DATA_FLOAT, {}, x, b, {}, y);
  return y;
}

CudnnGraph::Tensor CudnnGraph::select(const Tensor& x, const Tensor& otherwise, const Tensor& keep) {
  const Tensor y = intermediate(x.dims);
  add_pointwise(CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, {}, x, otherwise, keep, y);
  return y;
}

CudnnGraph::Tensor CudnnGraph::index_along(const Tensor& like, std::int64_t dim) {
  const Tensor y = intermediate(like.dims, CUDNN_DATA_INT32);
  add_pointwise(CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, dim, like, {}, {}, y);
  return y;
}

CudnnGraph::Tensor CudnnGraph::is_at_least(const Tensor& x, const Tensor& other) {
  const Tensor y = intermediate(x.dims, CUDNN_DATA_BOOLEAN);
  add_pointwise(CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, {}, x, other, {}, y);
  return y;
}

CudnnGraph::Tensor CudnnGraph::reduce(cudnnReduceTensorOp_t op, const Tensor& x, const Tensor& y) {
  CudnnDescriptor& part = parts_.emplace_back(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  part.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  part.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, op);
  part.finalize();
  CudnnDescriptor& operation = operations_.emplace_back(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, part);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, descriptor(x));
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, descriptor(y));
  operation.finalize();
  return y;
}

CudnnGraph::Tensor CudnnGraph::transpose(const Tensor& x, const Extents& strides, cudnnDataType_t type) {
  const Tensor y =
      add_tensor(next_id_++, type, {x.dims[0], x.dims[1], x.dims[3], x.dims[2]}, strides, true, false);
  CudnnDescriptor& operation = operations_.emplace_back(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, descriptor(x));
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, descriptor(y));
  operation.finalize();
  return y;
}

void CudnnGraph::convolution(ConvolutionKind kind, const ConvGeometry& geometry, const Tensor& x,
                             const Tensor& weight, const Tensor& y) {
  const auto both = [](std::int64_t size) { return std::array<std::int64_t, 2>{size, size}; };
  const auto strides = both(geometry.stride), before = both(geometry.padding),
             after = both(geometry.end_padding()), dilations = both(1);
  CudnnDescriptor& part = parts_.emplace_back(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  part.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  part.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION);
  part.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, std::int64_t{2});
  part.set_array(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, strides.data());
  part.set_array(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, before.data());
  part.set_array(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, after.data());
  part.set_array(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, dilations.data());
  part.finalize();

  struct Names {
    cudnnBackendDescriptorType_t operation;
    cudnnBackendAttributeName_t alpha, beta, part, x, weight, y;
  };
  static constexpr Names kNames[] = {
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY}};
  const Names& names = kNames[static_cast<std::size_t>(kind)];
  CudnnDescriptor& operation = operations_.emplace_back(names.operation);
  operation.set(names.part, part);
  operation.set(names.x, descriptor(x));
  operation.set(names.weight, descriptor(weight));
  operation.set(names.y, descriptor(y));
  operation.set(names.alpha, CUDNN_TYPE_FLOAT, 1.0f);
  operation.set(names.beta, CUDNN_TYPE_FLOAT, 0.0f);
  operation.finalize();
}

std::optional<CudnnPlan> CudnnGraph::build(cudnnHandle_t handle, const EngineLimits& limits) const {
  std::vector<cudnnBackendDescriptor_t> operations;
  for (const CudnnDescriptor& operation : operations_) operations.push_back(operation.get());
  CudnnDescriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set_array(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                  static_cast<std::int64_t>(operations.size()), operations.data());
  graph.set(kGraphHandle, CUDNN_TYPE_HANDLE, handle);
  graph.finalize();
  std::vector<CudnnDescriptor> configs = propose(graph, CUDNN_HEUR_MODE_A);
  if (limits.fallback) {
    for (CudnnDescriptor& config : propose(graph, CUDNN_HEUR_MODE_FALLBACK)) {
      configs.push_back(std::move(config));
    }
  }
  for (std::size_t place = limits.first; place < configs.size(); ++place) {
    CudnnDescriptor& config = configs[place];
    if (has_note(config, limits.refused)) continue;
    if (!limits.wanted.empty() && !has_note(config, limits.wanted)) continue;
    CudnnDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.set(kPlanHandle, CUDNN_TYPE_HANDLE, handle);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    if (!plan.try_finalize()) continue;
    std::int64_t bytes = 0;
    std::int64_t count = 0;
    check_cudnn(cudnnBackendGetAttribute(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                         CUDNN_TYPE_INT64, 1, &count, &bytes),
                "cudnnBackendGetAttribute of a plan");
    if (static_cast<std::size_t>(bytes) > limits.most_workspace_bytes) continue;
    return CudnnPlan(std::move(plan), std::move(config), static_cast<std::size_t>(bytes), place);
  }
  return std::nullopt;
}

}  // namespace trireme::cuda
