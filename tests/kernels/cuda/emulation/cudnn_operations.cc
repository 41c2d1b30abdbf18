// Reads the operations of the emulated cuDNN from their descriptors.
#include <algorithm>

#include "tests/kernels/cuda/emulation/cudnn_data.h"

namespace emulation {
namespace {

DnnTensor tensor_of(const DnnData* data) {
  DnnTensor tensor;
  if (data == nullptr) return tensor;
  tensor.id = data->get<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  tensor.type = data->get<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
  for (std::size_t d = 0; d < 4; ++d) {
    tensor.dims[d] = data->get<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS, d);
    tensor.strides[d] = data->get<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES, d);
  }
  return tensor;
}

struct ConvolutionNames {
  cudnnBackendAttributeName_t part, x, weight, y, alpha, beta;
};
ConvolutionNames names_of(cudnnBackendDescriptorType_t type) {
  switch (type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      return {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
    default:
      return {
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
  }
}

// True if no two tensors of a graph share an id.
bool ids_differ(const DnnData& graph) {
  std::map<std::int64_t, const DnnData*> tensors;
  for (const auto& operation : graph.parts.at(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
    for (const auto& [name, parts] : operation->parts) {
      const DnnData* part = parts.front().get();
      if (part->type != CUDNN_BACKEND_TENSOR_DESCRIPTOR) continue;
      const auto id = part->get<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
      if (tensors.emplace(id, part).first->second != part) return false;
    }
  }
  return true;
}

}  // namespace

DnnOperation operation_of(const DnnData& data) {
  DnnOperation op{.kind = data.type};
  switch (data.type) {
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      op.x = tensor_of(data.part(CUDNN_ATTR_OPERATION_MATMUL_ADESC));
      op.b = tensor_of(data.part(CUDNN_ATTR_OPERATION_MATMUL_BDESC));
      op.y = tensor_of(data.part(CUDNN_ATTR_OPERATION_MATMUL_CDESC));
      break;
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: {
      const DnnData& part = *data.part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
      op.mode = part.get<int>(CUDNN_ATTR_POINTWISE_MODE);
      op.axis = part.get<std::int64_t>(CUDNN_ATTR_POINTWISE_AXIS);
      op.has_b = data.part(CUDNN_ATTR_OPERATION_POINTWISE_BDESC) != nullptr;
      op.x = tensor_of(data.part(CUDNN_ATTR_OPERATION_POINTWISE_XDESC));
      op.b = tensor_of(data.part(CUDNN_ATTR_OPERATION_POINTWISE_BDESC));
      op.t = tensor_of(data.part(CUDNN_ATTR_OPERATION_POINTWISE_TDESC));
      op.y = tensor_of(data.part(CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
      break;
    }
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
      op.mode = data.part(CUDNN_ATTR_OPERATION_REDUCTION_DESC)->get<int>(CUDNN_ATTR_REDUCTION_OPERATOR);
      op.x = tensor_of(data.part(CUDNN_ATTR_OPERATION_REDUCTION_XDESC));
      op.y = tensor_of(data.part(CUDNN_ATTR_OPERATION_REDUCTION_YDESC));
      break;
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
      op.x = tensor_of(data.part(CUDNN_ATTR_OPERATION_RESHAPE_XDESC));
      op.y = tensor_of(data.part(CUDNN_ATTR_OPERATION_RESHAPE_YDESC));
      break;
    default: {
      const ConvolutionNames names = names_of(data.type);
      for (std::size_t d = 0; d < 2; ++d) {
        op.stride[d] = data.part(names.part)->get<std::int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, d);
        op.padding[d] = data.part(names.part)->get<std::int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, d);
      }
      op.x = tensor_of(data.part(names.x));
      op.b = tensor_of(data.part(names.weight));
      op.y = tensor_of(data.part(names.y));
    }
  }
  return op;
}

// True if the extents of an operation are consistent.
bool is_sound(const DnnData& data) {
  switch (data.type) {
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR: {
      const DnnOperation op = operation_of(data);
      return op.x.dims[3] == op.b.dims[2] && op.y.dims[2] == op.x.dims[2] && op.y.dims[3] == op.b.dims[3];
    }
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR: {
      const DnnOperation op = operation_of(data);
      for (std::size_t d = 0; d < 4; ++d) {
        if (op.x.dims[d] % op.y.dims[d] != 0) return false;
      }
      return true;
    }
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR: {
      const DnnOperation op = operation_of(data);
      const ConvolutionNames names = names_of(data.type);
      for (std::size_t d = 0; d < 2; ++d) {
        const std::int64_t after =
            data.part(names.part)->get<std::int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, d);
        const std::int64_t reach = op.x.dims[d + 2] + op.padding[d] + after - op.b.dims[d + 2];
        if (op.y.dims[d + 2] != reach / op.stride[d] + 1) return false;
      }
      return op.x.dims[1] % op.b.dims[1] == 0 && op.y.dims[1] == op.b.dims[0] &&
             data.get<float>(names.alpha) == 1 && data.get<float>(names.beta) == 0;
    }
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
      return ids_differ(data);
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR: {
      const DnnTensor tensor = tensor_of(&data);
      return tensor.id > 0 && *std::min_element(tensor.dims.begin(), tensor.dims.end()) > 0;
    }
    default:
      return true;
  }
}

}  // namespace emulation
