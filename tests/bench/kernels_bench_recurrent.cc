// The recurrence of an LSTM layer, without the product of its inputs, at the shapes of the usual language
// models on the Penn Treebank (Zaremba et al. 2014) and of a character model.
#include "tests/bench/kernels_bench.h"

namespace trireme::bench {
namespace {

struct Layer {
  const char* name;
  std::int64_t samples, steps, units;

  double flops() const { return 8.0 * static_cast<double>(samples * steps * units * units); }
};

constexpr Layer kLayers[] = {{"ptb_medium", 20, 35, 650}, {"ptb_large", 20, 35, 1500}, {"char", 32, 64, 512}};

struct LstmTensors {
  TensorView x, w_hh, bias, h, c, gates, dgates, h_n, c_n;

  LstmTensors(Bench& bench, const Layer& l, DType dtype) {
    const Shape states{l.samples, l.steps, l.units}, all_gates{l.samples, l.steps, 4 * l.units};
    x = bench.random(all_gates, dtype), gates = bench.random(all_gates, dtype);
    dgates = bench.random(all_gates, dtype);
    w_hh = bench.random({4 * l.units, l.units}, dtype), bias = bench.random({4 * l.units}, dtype);
    h = bench.random(states, dtype), c = bench.random(states);
    h_n = bench.random({l.samples, l.units}, dtype), c_n = bench.random({l.samples, l.units});
  }
};

void lstm_fwd(benchmark::State& state, const Layer& l, const Mode& mode) {
  Bench bench;
  const LstmTensors t(bench, l, mode.dtype);
  for (auto _ : state) {
    bench.run(LstmFwdArgs{.x = t.x,
                          .w_hh = t.w_hh,
                          .bias = t.bias,
                          .h = t.h,
                          .c = t.c,
                          .gates = t.gates,
                          .h_n = t.h_n,
                          .c_n = t.c_n,
                          .math = mode.math});
  }
  count_flops(state, l.flops());
}

void lstm_bwd(benchmark::State& state, const Layer& l, const Mode& mode) {
  Bench bench;
  const LstmTensors t(bench, l, mode.dtype);
  for (auto _ : state) {
    bench.run(LstmBwdArgs{
        .gates = t.gates, .c = t.c, .dh = t.h, .w_hh = t.w_hh, .dgates = t.dgates, .math = mode.math});
  }
  count_flops(state, l.flops());
}

}  // namespace

void register_recurrent(const Mode& mode) {
  for (const Layer& layer : kLayers) {
    register_case("lstm_fwd", name_of(layer.name, mode), lstm_fwd, layer, mode);
    register_case("lstm_bwd", name_of(layer.name, mode), lstm_bwd, layer, mode);
  }
}

}  // namespace trireme::bench
