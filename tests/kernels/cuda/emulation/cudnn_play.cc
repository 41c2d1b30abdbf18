#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "tests/kernels/cuda/emulation/cudnn_emulation.h"
#include "tests/kernels/cuda/emulation/tensor_core.h"

namespace emulation {
namespace {

using Index = std::array<std::int64_t, 4>;

// A tensor and its memory.
class Operand {
 public:
  Operand(const DnnTensor& tensor, const DnnMemory& memory) : tensor_(tensor), memory_(memory) {}

  const Index& dims() const { return tensor_.dims; }
  cudnnDataType_t type() const { return tensor_.type; }

  // Dims of extent 1 are broadcast.
  double get(const Index& at) const {
    const auto i = static_cast<std::size_t>(offset(at));
    if (memory_.data == nullptr) return (*memory_.values)[i];
    switch (tensor_.type) {
      case CUDNN_DATA_HALF:
        return __half2float(static_cast<const __half*>(memory_.data)[i]);
      case CUDNN_DATA_BFLOAT16:
        return __bfloat162float(static_cast<const __nv_bfloat16*>(memory_.data)[i]);
      default:
        return static_cast<const float*>(memory_.data)[i];
    }
  }

  void set(const Index& at, double value) const {
    const auto i = static_cast<std::size_t>(offset(at));
    const auto x = static_cast<float>(value);
    if (tensor_.type == CUDNN_DATA_HALF) {
      const __half half = __float2half_rn(x);
      if (memory_.data != nullptr)
        static_cast<__half*>(memory_.data)[i] = half;
      else
        (*memory_.values)[i] = __half2float(half);
    } else if (tensor_.type == CUDNN_DATA_BFLOAT16) {
      const __nv_bfloat16 half = __float2bfloat16_rn(x);
      if (memory_.data != nullptr)
        static_cast<__nv_bfloat16*>(memory_.data)[i] = half;
      else
        (*memory_.values)[i] = __bfloat162float(half);
    } else if (memory_.data != nullptr) {
      static_cast<float*>(memory_.data)[i] = x;
    } else {
      (*memory_.values)[i] = x;
    }
  }

  std::int64_t offset(const Index& at) const {
    std::int64_t sum = 0;
    for (std::size_t d = 0; d < 4; ++d) sum += tensor_.dims[d] == 1 ? 0 : at[d] * tensor_.strides[d];
    return sum;
  }

 private:
  const DnnTensor tensor_;
  const DnnMemory memory_;
};

template <class F>
void for_each(const Index& dims, F run) {
  Index at{};
  for (at[0] = 0; at[0] < dims[0]; ++at[0]) {
    for (at[1] = 0; at[1] < dims[1]; ++at[1]) {
      for (at[2] = 0; at[2] < dims[2]; ++at[2]) {
        for (at[3] = 0; at[3] < dims[3]; ++at[3]) run(at);
      }
    }
  }
}

// The result of an engine with these notes, computed from the exact one.
double spoiled(double value, const DnnEngine& engine) {
  static std::atomic<int> run = 0;
  if (engine.has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC))
    return engine.repeats ? value : value * (1 + 1e-6 * (++run % 5));
  for (const auto note :
       {CUDNN_NUMERICAL_NOTE_WINOGRAD, CUDNN_NUMERICAL_NOTE_FFT, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS,
        CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION}) {
    if (engine.has(note)) return value * 1.001;
  }
  return value;
}

void pointwise(const DnnOperation& op, const Operand& x, const Operand& b, const Operand& t,
               const Operand& y) {
  for_each(y.dims(), [&](const Index& at) {
    const auto left = [&] { return x.get(at); };
    const auto right = [&] { return b.get(at); };
    switch (op.mode) {
      case CUDNN_POINTWISE_ADD:
        return y.set(at, left() + right());
      case CUDNN_POINTWISE_SUB:
        return y.set(at, left() - right());
      case CUDNN_POINTWISE_MUL:
        return y.set(at, left() * right());
      case CUDNN_POINTWISE_DIV:
        return y.set(at, left() / right());
      case CUDNN_POINTWISE_IDENTITY:
        return y.set(at, left());
      case CUDNN_POINTWISE_EXP:
        return y.set(at, std::exp(left()));
      case CUDNN_POINTWISE_LOG:
        return y.set(at, std::log(left()));
      case CUDNN_POINTWISE_GEN_INDEX:
        return y.set(at, static_cast<double>(at[static_cast<std::size_t>(op.axis)]));
      case CUDNN_POINTWISE_CMP_GE:
        return y.set(at, left() >= right() ? 1 : 0);
      case CUDNN_POINTWISE_BINARY_SELECT:
        return y.set(at, t.get(at) != 0 ? left() : right());
    }
  });
}

void reduce(const DnnOperation& op, const Operand& x, const Operand& y) {
  Index neighbours{};
  for (std::size_t d = 0; d < 4; ++d) neighbours[d] = x.dims()[d] / y.dims()[d];
  for_each(y.dims(), [&](const Index& to) {
    const bool is_max = op.mode == CUDNN_REDUCE_TENSOR_MAX;
    double result = is_max ? -std::numeric_limits<double>::infinity() : 0;
    for_each(neighbours, [&](Index at) {
      for (std::size_t d = 0; d < 4; ++d) at[d] += to[d] * neighbours[d];
      const double value = x.get(at);
      // The maximum with NaN is NaN.
      result = !is_max ? result + value : std::isnan(value) || value > result ? value : result;
    });
    y.set(to, result);
  });
}

double rounded(double value, cudnnDataType_t type) {
  const auto x = static_cast<float>(value);
  if (type == CUDNN_DATA_HALF) return __half2float(__float2half_rn(x));
  if (type == CUDNN_DATA_BFLOAT16) return __bfloat162float(__float2bfloat16_rn(x));
  return value;
}

// All elements of a tensor in order, read once.
std::vector<double> read_all(const Operand& operand, bool as_tf32 = false,
                             cudnnDataType_t type = CUDNN_DATA_FLOAT) {
  std::vector<double> values;
  for_each(operand.dims(), [&](const Index& at) {
    const double value = rounded(operand.get(at), type);
    values.push_back(as_tf32 ? rounded_to_tf32(value) : value);
  });
  return values;
}

// The caller's elements, in their memory layout.
std::shared_ptr<std::vector<double>> values_in_place(const Operand& operand) {
  auto values = std::make_shared<std::vector<double>>();
  for_each(operand.dims(), [&](const Index& at) {
    const auto i = static_cast<std::size_t>(operand.offset(at));
    if (i >= values->size()) values->resize(i + 1, std::numeric_limits<double>::quiet_NaN());
    (*values)[i] = operand.get(at);
  });
  return values;
}

std::size_t flat(const Index& dims, const Index& at) {
  return static_cast<std::size_t>(((at[0] * dims[1] + at[1]) * dims[2] + at[2]) * dims[3] + at[3]);
}

// Tensor cores take two factors of one type, so a factor beside a 16-bit one is rounded. If a factor has
// fewer heads, neighbouring heads of the result share one.
void matmul(const Operand& a, const Operand& b, const Operand& c, const DnnEngine& engine) {
  const std::vector<double> left = read_all(a, false, b.type()), right = read_all(b, false, a.type());
  const auto depth = static_cast<std::size_t>(a.dims()[3]), columns = static_cast<std::size_t>(b.dims()[3]);
  for_each(c.dims(), [&](const Index& at) {
    const auto head_of = [&](const Operand& x) { return at[1] * x.dims()[1] / c.dims()[1]; };
    const Index of_a{at[0] % a.dims()[0], head_of(a), at[2], 0};
    const Index of_b{at[0] % b.dims()[0], head_of(b), 0, at[3]};
    const double* row = left.data() + flat(a.dims(), of_a);
    const double* column = right.data() + flat(b.dims(), of_b);
    double sum = 0;
    for (std::size_t k = 0; k < depth; ++k) sum += row[k] * column[k * columns];
    c.set(at, spoiled(sum, engine));
  });
}

// Cross-correlation. One of the three operands is the result.
void convolve(const DnnOperation& op, const Operand& x, const Operand& weight, const Operand& y,
              const DnnEngine& engine) {
  const bool writes_x = op.kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
  const bool writes_weight = op.kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
  const Operand& result = writes_x ? x : writes_weight ? weight : y;
  const Index &dims = weight.dims(), &images = x.dims(), &outputs = y.dims();
  const std::int64_t in_group = dims[1], out_group = dims[0] * in_group / images[1];
  const auto values = [&](const Operand& operand) {
    if (&operand == &result) return std::vector<double>(flat(operand.dims(), {operand.dims()[0], 0, 0, 0}));
    return read_all(operand,
                    operand.type() == CUDNN_DATA_FLOAT && engine.has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE));
  };
  std::vector<double> xs = values(x), weights = values(weight), ys = values(y);
  const std::int64_t image = images[2] * images[3], window = dims[2] * dims[3];  // distance between channels
  for_each(outputs, [&](const Index& out) {
    double& of_y = ys[flat(outputs, out)];
    for_each({1, 1, dims[2], dims[3]}, [&](const Index& k) {
      const Index in{out[0], out[1] / out_group * in_group, out[2] * op.stride[0] - op.padding[0] + k[2],
                     out[3] * op.stride[1] - op.padding[1] + k[3]};
      if (in[2] < 0 || in[2] >= images[2] || in[3] < 0 || in[3] >= images[3]) return;
      double* of_x = xs.data() + flat(images, in);
      double* of_weight = weights.data() + flat(dims, {out[1], 0, k[2], k[3]});
      for (std::int64_t c = 0; c < in_group; ++c, of_x += image, of_weight += window) {
        if (writes_x)
          *of_x += *of_weight * of_y;
        else if (writes_weight)
          *of_weight += *of_x * of_y;
        else
          of_y += *of_x * *of_weight;
      }
    });
  });
  const std::vector<double>& sums = writes_x ? xs : writes_weight ? weights : ys;
  for_each(result.dims(),
           [&](const Index& at) { result.set(at, spoiled(sums[flat(result.dims(), at)], engine)); });
}

}  // namespace

void play(const std::vector<DnnOperation>& operations, std::map<std::int64_t, DnnMemory> memory,
          const DnnEngine& engine) {
  const auto operand = [&](const DnnTensor& tensor) {
    DnnMemory& where = memory[tensor.id];
    if (where.data == nullptr && !where.values) {
      std::int64_t last = 0;
      for (std::size_t d = 0; d < 4; ++d) last += (tensor.dims[d] - 1) * tensor.strides[d];
      where.values = std::make_shared<std::vector<double>>(static_cast<std::size_t>(last + 1),
                                                           std::numeric_limits<double>::quiet_NaN());
    }
    return Operand(tensor, where);
  };
  for (const DnnOperation& op : operations) {
    switch (op.kind) {
      case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
        // The same memory with other strides, or another type.
        if (memory[op.x.id].data == nullptr || op.x.type == op.y.type)
          memory[op.y.id] = memory[op.x.id];
        else
          memory[op.y.id].values = values_in_place(operand(op.x));
        break;
      case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
        pointwise(op, operand(op.x), operand(op.has_b ? op.b : op.x), operand(op.t.id != 0 ? op.t : op.x),
                  operand(op.y));
        break;
      case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
        reduce(op, operand(op.x), operand(op.y));
        break;
      case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
        matmul(operand(op.x), operand(op.b), operand(op.y), engine);
        break;
      default:
        convolve(op, operand(op.x), operand(op.b), operand(op.y), engine);
        break;
    }
  }
}

}  // namespace emulation
