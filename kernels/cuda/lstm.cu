// An LSTM: see [Note: LSTM] in kernels/backend_recurrent_ops.h. Each step is a product and a kernel with one
// thread per cell.
#include <cassert>
#include <optional>

#include "kernels/cuda/device/workspace.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/matmul/plain_product.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pack.cuh"
#include "kernels/lstm_workspace.h"

namespace trireme::cuda {
namespace {

/// One step of a tensor [B, T, elems], or a tensor [B, elems].
template <class T>
struct StepRows {
  T* data = nullptr;       // of the first sample, or null
  std::int64_t pitch = 0;  // elements from one sample to the next

  __device__ T& operator()(std::int64_t sample, std::int64_t elem) const {
    return data[sample * pitch + elem];
  }
};

struct Steps {
  std::int64_t samples, steps, units;

  explicit Steps(ConstTensorView c) : samples(c.shape[0]), steps(c.shape[1]), units(c.shape[2]) {}
  std::int64_t cells() const { return samples * units; }

  template <class T, class View>
  StepRows<T> rows(const View& view, std::int64_t step) const {
    if (!view.defined()) return {};
    const std::int64_t elems = view.shape[view.shape.rank() - 1];
    if (view.shape.rank() == 2) return {view.template as<std::remove_const_t<T>>(), elems};
    return {view.template as<std::remove_const_t<T>>() + step * elems, steps * elems};
  }
  /// The cells before `step`; null where they are 0.
  template <class Args>
  StepRows<const float> cells_before(const Args& args, std::int64_t step) const {
    return step > 0 ? rows<const float>(ConstTensorView(args.c), step - 1) : rows<const float>(args.c0, 0);
  }
};

__device__ inline float sigmoid(float x) {
  return 1.0f / (1.0f + expf(-x));
}

template <class T>
struct FwdStep {
  StepRows<const T> x;
  StepRows<const float> product;  // or null: 0
  const T* bias;
  StepRows<const float> c_before;  // or null: 0
  StepRows<T> gates, h;
  StepRows<float> c;
  StepRows<T> h_n;  // null before the last step
  StepRows<float> c_n;
};

template <class T>
__global__ void lstm_fwd_kernel(FwdStep<T> s, std::int64_t cells, std::int64_t units) {
  const std::int64_t cell = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (cell >= cells) return;
  const std::int64_t b = cell / units, u = cell % units;
  float a[4];
#pragma unroll
  for (int gate = 0; gate < 4; ++gate) {
    const std::int64_t at = gate * units + u;
    a[gate] = to_float(s.x(b, at));
    if (s.product.data != nullptr) a[gate] += s.product(b, at);
    a[gate] += to_float(s.bias[at]);
    a[gate] = gate == 2 ? tanhf(a[gate]) : sigmoid(a[gate]);
    s.gates(b, at) = from_float<T>(a[gate]);
  }
  const float before = s.c_before.data != nullptr ? s.c_before(b, u) : 0.0f;
  const float c = a[1] * before + a[0] * a[2];
  const T h = from_float<T>(a[3] * tanhf(c));
  s.c(b, u) = c;
  s.h(b, u) = h;
  if (s.h_n.data == nullptr) return;
  s.h_n(b, u) = h;
  s.c_n(b, u) = c;
}

template <class T>
struct BwdStep {
  StepRows<const T> gates;
  StepRows<const float> c, c_before;  // c_before may be null: 0
  StepRows<const T> dh;
  StepRows<const float> dh_next;  // from the step after it, or null: 0
  StepRows<float> dc;             // likewise; becomes the gradient of c_before
  StepRows<T> dgates;             // may be gates
};

template <class T>
__global__ void lstm_bwd_kernel(BwdStep<T> s, std::int64_t cells, std::int64_t units) {
  const std::int64_t cell = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (cell >= cells) return;
  const std::int64_t b = cell / units, u = cell % units;
  float gate[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) gate[i] = to_float(s.gates(b, i * units + u));
  const float before = s.c_before.data != nullptr ? s.c_before(b, u) : 0.0f;
  const float squashed = tanhf(s.c(b, u));
  float dh = to_float(s.dh(b, u)), dc = 0.0f;
  if (s.dh_next.data != nullptr) {
    dh += s.dh_next(b, u);
    dc = s.dc(b, u);
  }
  dc += dh * gate[3] * (1.0f - squashed * squashed);
  const float gradient[4] = {
      dc * gate[2] * gate[0] * (1.0f - gate[0]), dc * before * gate[1] * (1.0f - gate[1]),
      dc * gate[0] * (1.0f - gate[2] * gate[2]), dh * squashed * gate[3] * (1.0f - gate[3])};
#pragma unroll
  for (int i = 0; i < 4; ++i) s.dgates(b, i * units + u) = from_float<T>(gradient[i]);
  s.dc(b, u) = dc * gate[1];
}

template <class T>
__global__ void shift_steps_kernel(const T* x, const T* first, T* y, std::int64_t n, std::int64_t sample,
                                   std::int64_t cols) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const std::int64_t b = i / sample, at = i % sample;
  if (at >= cols) {
    y[i] = x[i - cols];
  } else {
    y[i] = first != nullptr ? first[b * cols + at] : from_float<T>(0.0f);
  }
}

/// h[step - 1] w_hh^T, of the rows `h`.
template <class T>
void multiply_fwd(const KernelContext& exec, const LstmFwdArgs& args, const Steps& steps,
                  const StepRows<const T>& h, float* product) {
  plain_product(exec,
                {.m = steps.samples,
                 .n = 4 * steps.units,
                 .k = steps.units,
                 .transpose_b = Transpose::kYes,
                 .in = args.w_hh.dtype,
                 .math = args.math,
                 .a_pitch = h.pitch},
                {.a = h.data, .b = args.w_hh.data, .d = product});
}

/// dgates[step] w_hh.
void multiply_bwd(const KernelContext& exec, const LstmBwdArgs& args, const Steps& steps, std::int64_t step,
                  DType out, void* product) {
  const std::int64_t row = 4 * steps.units;
  const char* dgates =
      static_cast<const char*>(args.dgates.data) + step * row * size_bytes(args.dgates.dtype);
  plain_product(exec,
                {.m = steps.samples,
                 .n = steps.units,
                 .k = row,
                 .in = args.w_hh.dtype,
                 .out = out,
                 .math = args.math,
                 .a_pitch = steps.steps * row},
                {.a = dgates, .b = args.w_hh.data, .d = product});
}

}  // namespace

void run_op(const KernelContext& exec, const LstmFwdArgs& args) {
  const Steps steps(args.c);
  check_dtype("lstm_fwd", args.x.dtype, {args.w_hh, args.bias, args.h0, args.h, args.gates, args.h_n});
  check_dtype("lstm_fwd", DType::kFloat32, {args.c0, args.c, args.c_n});
  assert(args.gates.num_elems() == 4 * args.c.num_elems());
  if (args.c.num_elems() == 0) return;
  std::optional<Workspace> product;
  if (const std::int64_t bytes = lstm_workspace(args); bytes > 0) {
    product.emplace(exec, static_cast<std::size_t>(bytes));
  }
  for_float_type("lstm_fwd", args.x.dtype, [&]<class T>(T) {
    for (std::int64_t t = 0; t < steps.steps; ++t) {
      FwdStep<T> step{.x = steps.rows<const T>(args.x, t),
                      .bias = args.bias.as<T>(),
                      .c_before = steps.cells_before(args, t),
                      .gates = steps.rows<T>(args.gates, t),
                      .h = steps.rows<T>(args.h, t),
                      .c = steps.rows<float>(args.c, t)};
      if (t + 1 == steps.steps) {
        step.h_n = steps.rows<T>(args.h_n, 0);
        step.c_n = steps.rows<float>(args.c_n, 0);
      }
      if (t > 0 || args.h0.defined()) {
        const StepRows<const T> before =
            t > 0 ? steps.rows<const T>(ConstTensorView(args.h), t - 1) : steps.rows<const T>(args.h0, 0);
        multiply_fwd(exec, args, steps, before, product->as<float>());
        step.product = {product->as<float>(), 4 * steps.units};
      }
      launch(exec, "lstm_fwd", grid_of(ceil_div(steps.cells(), kThreads)), kThreads, 0, lstm_fwd_kernel<T>,
             step, steps.cells(), steps.units);
    }
  });
}

void run_op(const KernelContext& exec, const LstmBwdArgs& args) {
  const Steps steps(args.c);
  check_dtype("lstm_bwd", args.gates.dtype, {args.dh, args.w_hh, args.dgates, args.dh0});
  check_dtype("lstm_bwd", DType::kFloat32, {args.c, args.c0, args.dc0});
  assert(args.gates.num_elems() == 4 * args.c.num_elems());
  if (args.c.num_elems() == 0) return;
  const auto bytes = static_cast<std::size_t>(lstm_step_bytes(args.c, steps.units));
  std::optional<Workspace> dc, dh_next;
  if (!args.dc0.defined()) dc.emplace(exec, bytes);
  if (steps.steps > 1) dh_next.emplace(exec, bytes);
  float* const dc_data = args.dc0.defined() ? args.dc0.as<float>() : dc->as<float>();
  for_float_type("lstm_bwd", args.gates.dtype, [&]<class T>(T) {
    for (std::int64_t t = steps.steps - 1; t >= 0; --t) {
      BwdStep<T> step{.gates = steps.rows<const T>(args.gates, t),
                      .c = steps.rows<const float>(args.c, t),
                      .c_before = steps.cells_before(args, t),
                      .dh = steps.rows<const T>(args.dh, t),
                      .dc = {dc_data, steps.units},
                      .dgates = steps.rows<T>(args.dgates, t)};
      if (t + 1 < steps.steps) {
        multiply_bwd(exec, args, steps, t + 1, DType::kFloat32, dh_next->as<float>());
        step.dh_next = {dh_next->as<float>(), steps.units};
      }
      launch(exec, "lstm_bwd", grid_of(ceil_div(steps.cells(), kThreads)), kThreads, 0, lstm_bwd_kernel<T>,
             step, steps.cells(), steps.units);
    }
  });
  if (args.dh0.defined()) multiply_bwd(exec, args, steps, 0, args.dh0.dtype, args.dh0.data);
}

void run_op(const KernelContext& exec, const ShiftStepsArgs& args) {
  check_dtype("shift_steps", args.x.dtype, {args.first, args.y});
  const std::int64_t n = args.x.num_elems(), cols = args.x.shape[2];
  if (n == 0) return;
  for_float_type("shift_steps", args.x.dtype, [&]<class T>(T) {
    launch(exec, "shift_steps", grid_of(ceil_div(n, kThreads)), kThreads, 0, shift_steps_kernel<T>,
           args.x.as<T>(), args.first.defined() ? args.first.as<T>() : nullptr, args.y.as<T>(), n,
           args.x.shape[1] * cols, cols);
  });
}

}  // namespace trireme::cuda
