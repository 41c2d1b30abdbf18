// Gates and cells of an LSTM: see [Note: LSTM] in kernels/backend_recurrent_ops.h.
#include "kernels/cpu/isa/vector_math.h"
#include "kernels/cpu/numerics.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

constexpr int kVectors = 2;  // of each gate at a time, by the number of registers

template <int kCount, class Lanes>
[[gnu::always_inline]] inline VectorGroup<kCount> load_or_zero(const float* from, std::int64_t i,
                                                               Lanes lanes) {
  return from != nullptr ? lanes.template load<kCount>(from + i) : VectorGroup<kCount>{};
}

template <int kCount, class Lanes>
[[gnu::always_inline]] inline VectorGroup<kCount> load_gate(const ConstLstmGates& gates, int which,
                                                            std::int64_t i, Lanes lanes) {
  return lanes.template load<kCount>(gates.data + which * gates.pitch + i);
}

template <int kCount, class Lanes>
[[gnu::always_inline]] inline void store_gate(const LstmGates& gates, int which, std::int64_t i,
                                              const VectorGroup<kCount>& value, Lanes lanes) {
  lanes.store(gates.data + which * gates.pitch + i, value);
}

/// The argument of the activation of a gate.
template <int kCount, class Lanes>
[[gnu::always_inline]] inline VectorGroup<kCount> argument(const LstmFwdCells& cells, int which,
                                                           std::int64_t i, Lanes lanes) {
  auto sum = load_gate<kCount>(cells.x, which, i, lanes);
  if (cells.product.data != nullptr) sum = sum + load_gate<kCount>(cells.product, which, i, lanes);
  return sum + load_gate<kCount>(cells.bias, which, i, lanes);
}

void fwd(const LstmFwdCells& cells) {
  for_each_group<kVectors>(cells.units, [&]<int kCount>(std::int64_t i, auto lanes) {
    const auto input = sigmoids(argument<kCount>(cells, 0, i, lanes)).of_x;
    const auto forget = sigmoids(argument<kCount>(cells, 1, i, lanes)).of_x;
    const auto candidate = tanh(argument<kCount>(cells, 2, i, lanes));
    const auto output = sigmoids(argument<kCount>(cells, 3, i, lanes)).of_x;
    const auto c = forget * load_or_zero<kCount>(cells.c_before, i, lanes) + input * candidate;
    store_gate(cells.gates, 0, i, input, lanes);
    store_gate(cells.gates, 1, i, forget, lanes);
    store_gate(cells.gates, 2, i, candidate, lanes);
    store_gate(cells.gates, 3, i, output, lanes);
    lanes.store(cells.c + i, c);
    lanes.store(cells.h + i, output * tanh(c));
  });
}

/// 1 - y
template <int kCount>
[[gnu::always_inline]] inline VectorGroup<kCount> complement(const VectorGroup<kCount>& y) {
  return y * -1.0f + 1.0f;
}

void bwd(const LstmBwdCells& cells) {
  for_each_group<kVectors>(cells.units, [&]<int kCount>(std::int64_t i, auto lanes) {
    const auto input = load_gate<kCount>(cells.gates, 0, i, lanes);
    const auto forget = load_gate<kCount>(cells.gates, 1, i, lanes);
    const auto candidate = load_gate<kCount>(cells.gates, 2, i, lanes);
    const auto output = load_gate<kCount>(cells.gates, 3, i, lanes);
    const auto c_before = load_or_zero<kCount>(cells.c_before, i, lanes);
    const auto cell = tanh(lanes.template load<kCount>(cells.c + i));
    const auto dh = lanes.template load<kCount>(cells.dh + i) + load_or_zero<kCount>(cells.dh_next, i, lanes);
    const auto dc = lanes.template load<kCount>(cells.dc + i) + dh * output * complement(cell * cell);
    store_gate(cells.dgates, 0, i, dc * candidate * input * complement(input), lanes);
    store_gate(cells.dgates, 1, i, dc * c_before * forget * complement(forget), lanes);
    store_gate(cells.dgates, 2, i, dc * input * complement(candidate * candidate), lanes);
    store_gate(cells.dgates, 3, i, dh * cell * output * complement(output), lanes);
    lanes.store(cells.dc + i, dc * forget);
  });
}

}  // namespace

const LstmNumerics lstm_numerics{.fwd = fwd, .bwd = bwd};

}  // namespace trireme::cpu::TRIREME_ISA
