#include "kernels/cpu/isa/vector_math.h"
#include "kernels/cpu/numerics.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

// Everything in one pass: the activation's latency hides the branches in its loop. The rest of a row is
// computed as a full vector, so that a value's bits do not depend on where its row was split.
template <class Function>
void activated_row(const EpilogueTile& tile, float* d, float* pre, const float* residual, const Function& f) {
  for_each_group(tile.cols, [&]<int kCount>(std::int64_t j, auto lanes) {
    auto value = lanes.template load<kCount>(d + j);
    if (tile.bias != nullptr) value = value + lanes.template load<kCount>(tile.bias + j);
    if (pre != nullptr) lanes.store(pre + j, value);
    value = f(value);
    if (residual != nullptr) value = value + lanes.template load<kCount>(residual + j);
    lanes.store(d + j, value);
  });
}

void gelu_tanh_row(const EpilogueTile& tile, float* d, float* pre, const float* residual) {
  activated_row(tile, d, pre, residual, [](const auto& x) { return gelu_tanh(x); });
}

void gelu_row(const EpilogueTile& tile, float* d, float* pre, const float* residual) {
  activated_row(tile, d, pre, residual, [](const auto& x) { return gelu(x); });
}

void tanh_row(const EpilogueTile& tile, float* d, float* pre, const float* residual) {
  activated_row(tile, d, pre, residual, [](const auto& x) { return tanh(x); });
}

void silu_row(const EpilogueTile& tile, float* d, float* pre, const float* residual) {
  activated_row(tile, d, pre, residual, [](const auto& x) { return silu(x); });
}

void row_without_activation(const EpilogueTile& tile, float* d, float* pre, const float* residual) {
  if (tile.bias != nullptr) {
#pragma omp simd
    for (std::int64_t j = 0; j < tile.cols; ++j) d[j] += tile.bias[j];
  }
  if (pre != nullptr) {
#pragma omp simd
    for (std::int64_t j = 0; j < tile.cols; ++j) pre[j] = d[j];
  }
  if (residual != nullptr) {
#pragma omp simd
    for (std::int64_t j = 0; j < tile.cols; ++j) d[j] += residual[j];
  }
}

void epilogue(const EpilogueTile& tile) {
  for (std::int64_t i = 0; i < tile.rows; ++i) {
    float* d = tile.d + i * tile.pitch;
    float* pre = tile.pre_activation != nullptr ? tile.pre_activation + i * tile.pitch : nullptr;
    const float* residual = tile.residual != nullptr ? tile.residual + i * tile.residual_pitch : nullptr;
    switch (tile.activation) {
      case Activation::kNone:
        row_without_activation(tile, d, pre, residual);
        break;
      case Activation::kGeluTanh:
        gelu_tanh_row(tile, d, pre, residual);
        break;
      case Activation::kGelu:
        gelu_row(tile, d, pre, residual);
        break;
      case Activation::kTanh:
        tanh_row(tile, d, pre, residual);
        break;
      case Activation::kSilu:
        silu_row(tile, d, pre, residual);
        break;
    }
  }
}

void gelu_tanh_bwd(const float* dy, const float* pre, float* dx, std::int64_t n) {
  for_each_group(n, [&]<int kCount>(std::int64_t i, auto lanes) {
    const auto slope = gelu_tanh_derivative(lanes.template load<kCount>(pre + i));
    lanes.store(dx + i, lanes.template load<kCount>(dy + i) * slope);
  });
}

void gelu_bwd(const float* dy, const float* pre, float* dx, std::int64_t n) {
  for_each_group(n, [&]<int kCount>(std::int64_t i, auto lanes) {
    const auto slope = gelu_derivative(lanes.template load<kCount>(pre + i));
    lanes.store(dx + i, lanes.template load<kCount>(dy + i) * slope);
  });
}

void tanh_bwd(const float* dy, const float* pre, float* dx, std::int64_t n) {
  for_each_group(n, [&]<int kCount>(std::int64_t i, auto lanes) {
    lanes.store(dx + i,
                lanes.template load<kCount>(dy + i) * tanh_derivative(lanes.template load<kCount>(pre + i)));
  });
}

void silu_bwd(const float* dy, const float* pre, float* dx, std::int64_t n) {
  for_each_group(n, [&]<int kCount>(std::int64_t i, auto lanes) {
    lanes.store(dx + i,
                lanes.template load<kCount>(dy + i) * silu_derivative(lanes.template load<kCount>(pre + i)));
  });
}

void swiglu(const float* gate, const float* up, float* y, std::int64_t n) {
  for_each_group(n, [&]<int kCount>(std::int64_t i, auto lanes) {
    const auto g = lanes.template load<kCount>(gate + i);
    lanes.store(y + i, g * sigmoids(g).of_x * lanes.template load<kCount>(up + i));
  });
}

void swiglu_bwd(const float* dy, const float* gate, const float* up, float* dgate, float* dup,
                std::int64_t n) {
  for_each_group(n, [&]<int kCount>(std::int64_t i, auto lanes) {
    const auto g = lanes.template load<kCount>(gate + i);
    const auto u = lanes.template load<kCount>(up + i);
    const auto d = lanes.template load<kCount>(dy + i);
    const auto sigmoid = sigmoids(g);
    lanes.store(dgate + i, d * u * (sigmoid.of_x + g * sigmoid.of_x * sigmoid.of_minus_x));
    lanes.store(dup + i, d * g * sigmoid.of_x);
  });
}

}  // namespace

const ActivationNumerics activation_numerics{.epilogue = epilogue,
                                             .gelu_tanh_bwd = gelu_tanh_bwd,
                                             .gelu_bwd = gelu_bwd,
                                             .tanh_bwd = tanh_bwd,
                                             .silu_bwd = silu_bwd,
                                             .swiglu = swiglu,
                                             .swiglu_bwd = swiglu_bwd};

}  // namespace trireme::cpu::TRIREME_ISA
